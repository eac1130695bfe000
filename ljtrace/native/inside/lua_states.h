/* lua_states.h - find the Lua states of the program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_LUA_STATES_H
#define LJTRACE_NATIVE_INSIDE_LUA_STATES_H

/* Observe the functions that create Lua states, in all objects that are loaded, now or later. Once, when the ring is
 * there. */
void lua_states_init(void);
/* The program was attached to: find the states that it has. */
void lua_states_find(void);
/* Perhaps no heap event of any state follows: write the types of the blocks allocated last, if the ring is free and this
 * thread is not in the middle of an event. Keeps errno. */
void lua_states_settle(void);
/* The recording is about to end: forget all states. */
void lua_states_end(void);

#endif
