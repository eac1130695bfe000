/* lua_allocator.h - observe the calls of a Lua allocator function.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_INSIDE_LUA_ALLOCATOR_H
#define LJTRACE_NATIVE_INSIDE_LUA_ALLOCATOR_H

#include "ljtrace/protocol/lua_layout.h"
#include <stdint.h>

/* Observe the function from here on. */
void lua_allocator_watch(void *function, enum lua_allocator whose, uint32_t image);
/* The code in this range is gone, with the functions in it. */
void lua_allocator_unloaded(uint64_t from, uint64_t to);
/* This thread closes a state, or has closed it (0). stack: address of the main thread's pointer to its stack, which is
 * not valid any more as soon as that is freed. size: of the pointer. */
void lua_allocator_closing(uint64_t stack, uint32_t size);

#endif
