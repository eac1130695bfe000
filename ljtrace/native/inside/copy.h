/* copy.h - a copy of the process, which takes a snapshot while the program goes on (ljtrace/luajit/host.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_COPY_H
#define LJTRACE_NATIVE_INSIDE_COPY_H

#include <stdbool.h>

/* Another recording begins. */
void copy_restart(void);
/* That of a forked child begins, which has no copies yet. */
void copy_forked(void);
/* The recording ends: take note of the end of the copies, for which the program waits a second at most. */
void copy_end(void);
/* Take note of the copies that have ended. Does none run any more? Also after the recording. */
bool copy_is_gone(void);

#endif
