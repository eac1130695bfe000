/* lua_misc.h - ljtrace run --lua-api: a global `misc` with the profilers of libljtrace-lua.so in each Lua state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_LUA_MISC_H
#define LJTRACE_NATIVE_INSIDE_LUA_MISC_H

/* Add it to a new state, if that was requested. */
void lua_misc_add(void *L);

#endif
