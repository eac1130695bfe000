/* lua_steps.h - have LuaJIT's compiler report each bytecode that it records.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The Valgrind tool sees the compiler store the address of each bytecode (ljtrace/tool/luajit/jit/recorder.h). Here a
 * function is attached to LuaJIT's event "record", which the library jit.attach offers to programs. If a program attaches
 * one of its own, as jit.dump does, the lines of allocations on traces recorded from then on are approximate.
 */
#ifndef LJTRACE_NATIVE_LUA_STEPS_H
#define LJTRACE_NATIVE_LUA_STEPS_H

#include "ljtrace/calibrate/lua_calibrate.h"
#include <stdint.h>

/* What is needed to attach the function; NULL = not known. */
struct lua_steps_api {
    c_function *attach; /* the library function jit.attach */
    void (*pushlstring)(void *L, const char *text, size_t size);
    int (*cpcall)(void *L, c_function *f, void *argument);
};

/* Find these functions by a scratch state in which the standard libraries are open. */
void lua_steps_find(const struct lua_api *api, void *L, const struct lua_layout *layout, uint32_t image,
                    struct lua_steps_api *to);
/* Attach the function in a new state. */
void lua_steps_attach(const struct lua_api *api, const struct lua_steps_api *steps, void *L);

#endif
