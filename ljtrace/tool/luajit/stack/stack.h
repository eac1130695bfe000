/* stack.h - the Lua stack of a state, joined with the C stack. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_LUAJIT_STACK_STACK_H
#define LJTRACE_TOOL_LUAJIT_STACK_STACK_H

#include "ljtrace/tool/luajit/core/states.h"
#include "ljtrace/tool/stacks/unwind.h"

/* Thread tid runs code on behalf of the state: take its C stack and put the Lua frames in their places.
 * `size`: of the block that it asks for, which tells apart what a trace makes; 0 = it asks for none. */
void lt_take_lua_stack(ThreadId tid, struct lt_vm *vm, SizeT size, struct lt_stack *stack);

/* Thread tid asks for memory of its own: its C stack, joined with that of the Lua under which it runs, if it
 * does. */
void lt_take_own_stack(ThreadId tid, struct lt_stack *stack);

/* Say how many were met before, if they were checked (--check-stacks). */
void lt_report_checked_stacks(void);

/* The same wherever the thread may be: in the interpreter the registers tell what is not on the stack yet. */
void lt_take_sampled_stack(ThreadId tid, struct lt_vm *vm, struct lt_stack *stack);

#endif
