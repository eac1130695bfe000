/* lua_snapshot.h - snapshots of all objects of a Lua state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LUA_SNAPSHOT_H
#define LJTRACE_NATIVE_LUA_SNAPSHOT_H

/* Write a snapshot of the Lua state that has called this. Returns NULL, or why there is none. Only between native_enter and
 * native_leave. */
const char *lua_snapshot(const char *name);

#endif
