/* profiler.h - what both profilers have in common: why they fail, that they stop before a
 * state is closed; and their functions beside those of ljtrace-native.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_PROFILERS_PROFILER_H
#define LJTRACE_PROFILERS_PROFILER_H

#include <stdbool.h>
#include <stdint.h>

struct lua_State;
struct luam_Prof_options;

/* Why the last function of a profiler has failed, and its errno. */
struct profiler_failure {
    const char *why;
    int number;
};
/* Note it. Returns the status. */
int profiler_fail(struct profiler_failure *failure, int status, int number, const char *why);

extern struct profiler_failure memprof_failure, sysprof_failure;

/* luaM_memprof_start with a duration in nanoseconds in place of dursec; 0 = no end. */
int memprof_start(struct lua_State *L, const struct luam_Prof_options *opt, uint64_t duration);
/* If the state is profiled and the duration is over, stop. */
void memprof_end_if_due(const struct lua_State *L);

/* A state is being closed: stop if it is the profiled one. */
void memprof_closing(struct lua_State *L);
void sysprof_closing(struct lua_State *L);
/* Put an object into the registry of the state, once, that stops the profilers when it is finalized. Returns false if there
 * is no memory for it. */
bool closing_watch(struct lua_State *L);

#endif
