/* copy.h - a copy of the process, which takes a snapshot while the program goes on (ljtrace/luajit/host.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_COPY_H
#define LJTRACE_NATIVE_INSIDE_COPY_H

/* Another recording begins, or that of a forked child. */
void copy_restart(void);
/* The recording ends: take note of the end of the copies, for which the program waits a second at most. */
void copy_end(void);

#endif
