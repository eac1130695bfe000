/* walk.h - walk over the frames of a Lua stack. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The walk notes what it reads on the stacks (cache.h), so that its result can be cached.
 */
#ifndef LJTRACE_LUAJIT_STACK_WALK_H
#define LJTRACE_LUAJIT_STACK_WALK_H

#include "ljtrace/luajit/core/states.h"
#include "ljtrace/valgrind/stacks/unwind.h"

/* The frames that a walk has found, innermost first. */
struct lua_frames {
    UInt wanted; /* one more than fit into the joined stack */
    UInt count;
    UInt lined; /* number of frames up to the first with a line; 0 = none has one */
    Addr key[LT_MOST_FRAMES];
    Addr cframe[LT_MOST_FRAMES];
};

/* Values that the interpreter keeps in registers while its code runs, as opposed to C functions. */
struct registers {
    Addr base, pc;
};

/* Walk over the frames of the running thread, then of the one that resumed it, and so on.
 * host: the C stack. live: the interpreter's registers, or NULL if other code runs. code: the address at
 * which the C stack leads into code generated at run time, 0 = it does not. size: the bytes requested, 0 =
 * none. The caller sets out->wanted, and out->count and out->lined to 0. */
void lt_walk_lua(struct lt_vm *vm, const struct lt_stack *host, const struct registers *live, Addr code,
                 SizeT size, struct lua_frames *out);

#endif
