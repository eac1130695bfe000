/* memprof.h - the memory profiler: functions beside those of ljtrace-native.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_PROFILERS_MEMPROF_H
#define LJTRACE_PROFILERS_MEMPROF_H

#include <stdint.h>

struct lua_State;
struct luam_Prof_options;

/* luaM_memprof_start with a duration in nanoseconds in place of dursec; 0 = no end. */
int memprof_start(struct lua_State *L, const struct luam_Prof_options *opt, uint64_t duration);
/* If the state is profiled and the duration is over, stop. */
void memprof_end_if_due(const struct lua_State *L);
/* A state is being closed: stop if it is the profiled one. */
void memprof_closing(struct lua_State *L);
/* Why the last function has failed, as text, and its errno. */
const char *memprof_error(int *number);

#endif
