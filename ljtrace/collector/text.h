/* text.h - a memtrace, as it comes, into classic text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COLLECTOR_TEXT_H
#define COLLECTOR_TEXT_H

/* The first line, with the process ("PID@START"); readers pass over it. */
#define TEXT_FIRST_LINE "# ljtrace: process %s\n"

/* Read a memtrace from one descriptor to its end and write `>>> OP ADDRESS SIZE` lines to the other, each as
 * soon as it is known. A Resize is a Free and a New. Exit status: 0, or 1 if either fails. */
int text_write(int in, int out, const char *process);

#endif
