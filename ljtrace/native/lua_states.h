/* lua_states.h - find the Lua states of the program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LUA_STATES_H
#define LJTRACE_NATIVE_LUA_STATES_H

/* Observe the functions that create Lua states, in all objects that are loaded, now or later. Once, when the ring is
 * there. */
void lua_states_init(void);

#endif
