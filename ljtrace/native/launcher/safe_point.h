/* safe_point.h - may a stopped thread load a library at this moment?
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LAUNCHER_SAFE_POINT_H
#define LJTRACE_NATIVE_LAUNCHER_SAFE_POINT_H

#include "ljtrace/native/launcher/target.h"

#include <sys/user.h>

/* Is the thread neither in malloc nor in the dynamic linker nor in this recorder, nor in a signal handler? It is stopped
 * by ptrace with these registers. */
bool safe_point(const struct target *t, pid_t thread, const struct user_regs_struct *r);

#endif
