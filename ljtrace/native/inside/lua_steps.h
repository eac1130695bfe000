/* lua_steps.h - notice each bytecode that LuaJIT's compiler records.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The Valgrind tool sees the compiler store the address of each bytecode (ljtrace/luajit/jit/recorder.h). Here the
 * function that the compiler runs for each bytecode is patched. It has no exported name. A function that is attached to
 * LuaJIT's event "record" would be called as well, but it needs objects in each state of the program, which the program
 * sees in collectgarbage("count") and in the registry.
 */
#ifndef LJTRACE_NATIVE_INSIDE_LUA_STEPS_H
#define LJTRACE_NATIVE_INSIDE_LUA_STEPS_H

#include "ljtrace/calibrate/lua_calibrate.h"
#include <stdint.h>

/* Find and patch the function of an image, by a scratch state in which the standard libraries are open. Returns NULL, or
 * why its steps are not known; then the lines of allocations on traces are approximate. */
const char *lua_steps_find(const struct lua_api *api, void *L, const struct lua_layout *layout);
/* Code of an object was unmapped. */
void lua_steps_unloaded(uint64_t from, uint64_t to);

#endif
