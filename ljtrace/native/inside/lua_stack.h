/* lua_stack.h - stacks of the C heap's events in programs that run Lua.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_NATIVE_LUA_STACK_H
#define LJTRACE_NATIVE_LUA_STACK_H

#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/unwind/unwind.h"
#include <ucontext.h>

/* Take the stack of the calling thread, joined of Lua and C, from these registers on. function: see native_event.
 * Returns false if no Lua runs there. The stack is valid up to the next call. Only while the ring is locked. */
bool lua_stack_take(const struct native_registers *from, uint64_t function, struct raw_stack *stack);
/* A sample of the calling thread. */
struct lua_sample {
    uint32_t vm;   /* enum mt_vm */
    uint64_t heap; /* of the Lua state that runs; 0 = none */
    const uint64_t *ips;
    uint32_t depth;
};
/* The registers of an event, for lua_stack_sample. */
void lua_stack_begin(const struct native_registers *from, uint64_t function);
/* Take one where a signal has interrupted the thread; or, if `at` is NULL, at the event whose registers were set last. It
 * is valid up to the next call. Only while the ring is locked. */
void lua_stack_sample(const ucontext_t *at, struct lua_sample *sample);
/* Objects were unmapped: code addresses may mean something else from now on. Only while the ring is locked. */
void lua_stack_forget(void);

#endif
