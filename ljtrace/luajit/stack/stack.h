/* stack.h - the Lua stack of a state, joined with the C stack.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The main file of this folder. Begin at lt_take_lua_stack, in stack.c.
 */
#ifndef LJTRACE_LUAJIT_STACK_STACK_H
#define LJTRACE_LUAJIT_STACK_STACK_H

#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/core/states.h"
#include <stddef.h>
#include <stdint.h>

/* Thread tid runs code on behalf of the state. Take its C stack and insert the Lua frames. size: the bytes it
 * requests, which help to find the line on a trace; 0 = none. */
void lt_take_lua_stack(uint32_t tid, struct lt_vm *vm, size_t size, struct lt_stack *stack);

/* Thread tid allocates for itself. Take its C stack, joined with the Lua stack if it runs under Lua. */
void lt_take_own_stack(uint32_t tid, struct lt_stack *stack);

/* With --check-stacks: report how many stacks came from the cache and were checked. */
void lt_report_checked_stacks(void);

/* Like lt_take_lua_stack at any instruction: in the interpreter, some values are still in registers. */
void lt_take_sampled_stack(uint32_t tid, struct lt_vm *vm, struct lt_stack *stack);

#endif
