/* coroutine.h - find the thread that has resumed a coroutine.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A coroutine's stack ends at its own bottom, and so does its chain of C frames of the VM. So nothing in Lua
 * leads from there to the thread that has resumed it. But the VM runs both on the same C stack: the frame of
 * the resuming thread is the VM's next one further out.
 */
#ifndef LJTRACE_LUAJIT_STACK_COROUTINE_H
#define LJTRACE_LUAJIT_STACK_COROUTINE_H

#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/core/states.h"
#include <stdint.h>

/* A thread and its innermost frame of the VM. */
struct lt_resumer {
    uint64_t L; /* 0 = none */
    uint64_t cframe;
    uint64_t word; /* the word on the C stack that refers to the thread */
};

/* Find the thread that has resumed the one whose outermost frame of the VM is `cframe`. Its frame is the VM's
 * next one further out on the C stack `host`. */
struct lt_resumer lt_find_resumer(const struct lt_vm *vm, const struct lt_stack *host, uint64_t cframe);

#endif
