/* latest.h - find a stack by what has changed since the latest one of the same Lua thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_STACK_LATEST_H
#define LJTRACE_LUAJIT_STACK_LATEST_H

#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/stack/cache_key.h"
#include "ljtrace/luajit/stack/walk.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Find the stack of a call of the allocator that requests `size` bytes (0 = none), and set vm->allocating. Returns false if
 * a walk is needed. */
bool lt_latest_find(uint32_t tid, struct lt_vm *vm, size_t size, const struct lt_cache_key *b,
                    struct lt_stack *stack);
/* A walk is complete: it has joined `host` and `lua` into `stack`, which has a number, and has noted what it has read
 * (notes.h). Keep what the next look-ups need. Returns false if that is not possible: the stack is cut or very deep,
 * or does not begin in Lua. */
bool lt_latest_keep(uint32_t tid, struct lt_vm *vm, size_t size, const struct lt_cache_key *b,
                    const struct lt_stack *host, const struct lua_frames *lua, const struct lt_stack *stack);

#endif
