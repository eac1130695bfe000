/* lua_snapshot.h - snapshots of all objects of a Lua state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LUA_SNAPSHOT_H
#define LJTRACE_NATIVE_LUA_SNAPSHOT_H

#include <stdint.h>

/* Write a snapshot of the Lua state that has called this. Returns NULL, or why there is none. Only between native_enter and
 * native_leave. */
const char *lua_snapshot(const char *name);
/* The recorder was attached, by a thread that was at this code address: take a snapshot of each state, at once or as soon as
 * it is consistent. */
void lua_snapshots_begin(uint64_t interrupted);
/* The recording ends, by a thread that was at this code address (0 = not known): take those that were not taken so far, or
 * report that they were not. With --universe=growing, take one of each state that has grown, if it is consistent now. */
void lua_snapshots_end(uint64_t interrupted);

#endif
