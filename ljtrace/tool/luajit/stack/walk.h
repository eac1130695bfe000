/* walk.h - the frames of a Lua stack. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What a walk reads on the stacks it notes (cache.h), so that its result can be kept.
 */
#ifndef LJTRACE_TOOL_LUAJIT_STACK_WALK_H
#define LJTRACE_TOOL_LUAJIT_STACK_WALK_H

#include "ljtrace/tool/luajit/core/states.h"
#include "ljtrace/tool/stacks/unwind.h"

struct lua_frames {
    UInt wanted; /* more do not fit into the joined stack */
    UInt count;
    UInt lined; /* how many there are up to the first that has a line; 0 = none has */
    Addr key[LT_MAX_DEPTH];
    Addr cframe[LT_MAX_DEPTH];
};

/* What the interpreter keeps in registers while its code runs, not a function in C. */
struct registers {
    Addr base, pc;
};

/* The frames of the thread that runs, then of the one that resumed it, and so on. `host`: the C stack.
 * `live`: registers of the interpreter, NULL if other code runs. `size`: of the block that is made, 0 = none.
 * `code`: where the C stack leads into code made at run time, 0 = it does not. out->wanted is given, and
 * out->count and out->lined are 0. */
void lt_walk_lua(struct lt_vm *vm, const struct lt_stack *host, const struct registers *live, Addr code,
                 SizeT size, struct lua_frames *out);

#endif
