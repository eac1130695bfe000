/* memprof.h - the memory profiler: functions beside those of ljtrace-native.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_PROFILERS_MEMPROF_H
#define LJTRACE_PROFILERS_MEMPROF_H

struct lua_State;

/* A state is being closed: stop if it is the profiled one. */
void memprof_closing(struct lua_State *L);
/* Why the last function has failed, as text, and its errno. */
const char *memprof_error(int *number);

#endif
