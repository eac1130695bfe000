/* text.h - convert a memtrace to classic text while it is being written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef COLLECTOR_TEXT_H
#define COLLECTOR_TEXT_H

/* The first line, with the process ("PID@START"). Readers skip it. */
#define TEXT_FIRST_LINE "# ljtrace: process %s\n"

/* Read a memtrace from descriptor `in` until its end and write `>>> OP ADDRESS SIZE` lines to `out`, each as
 * soon as its event is read. A Resize becomes a Free and a New. Returns an exit status: 0, or 1 if reading or
 * writing fails. */
int text_write(int in, int out, const char *process);

#endif
