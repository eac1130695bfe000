/* profiler.h - stop the profilers before a state is closed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_PROFILERS_PROFILER_H
#define LJTRACE_PROFILERS_PROFILER_H

#include <stdbool.h>

struct lua_State;

/* Put an object into the registry of the state, once, that stops the profilers when it is finalized. Returns false if there
 * is no memory for it. */
bool closing_watch(struct lua_State *L);

#endif
