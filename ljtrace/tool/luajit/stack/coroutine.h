/* coroutine.h - who resumed a coroutine. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A coroutine's stack ends at its own bottom, and so does its chain of the machine's frames: nothing in Lua
 * leads from there to the thread that resumed it. The C stack does: the machine runs the coroutine on it,
 * above the frame in which it ran the other.
 */
#ifndef LJTRACE_TOOL_LUAJIT_STACK_COROUTINE_H
#define LJTRACE_TOOL_LUAJIT_STACK_COROUTINE_H

#include "ljtrace/tool/luajit/core/states.h"
#include "ljtrace/tool/stacks/unwind.h"

/* A thread, and the machine's innermost frame of it. */
struct lt_resumer {
    Addr L; /* 0 = none */
    Addr cframe;
    Addr word; /* on the C stack, which tells the thread */
};

/* The thread that the machine ran in the next frame of its own farther up the C stack `host` than `cframe`,
 * which is the outermost of another thread. */
struct lt_resumer lt_find_resumer(const struct lt_vm *vm, const struct lt_stack *host, Addr cframe);

#endif
