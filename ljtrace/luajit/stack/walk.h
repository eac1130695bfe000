/* walk.h - walk over the frames of a Lua stack.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The walk notes what it reads on the stacks (notes.h), so that its result can be kept.
 */
#ifndef LJTRACE_LUAJIT_STACK_WALK_H
#define LJTRACE_LUAJIT_STACK_WALK_H

#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/stack/frames.h"
#include <stddef.h>
#include <stdint.h>

/* The frames that a walk has found, innermost first. */
struct lua_frames {
    uint32_t wanted; /* one more than fit into the joined stack */
    uint32_t count;
    uint32_t lined; /* number of frames up to the first with a line; 0 = none has one */
    uint64_t key[LT_MOST_FRAMES];
    uint64_t cframe[LT_MOST_FRAMES];
    uint32_t at[LT_MOST_FRAMES]; /* where each is in the joined stack, which `join` sets */
};

/* Walk over the frames of the running thread, then of the one that resumed it, and so on.
 * host: the C stack. live: the interpreter's registers, or NULL if other code runs. code: the address at
 * which the C stack leads into code generated at run time, 0 = it does not. size: the bytes requested, 0 =
 * none. The caller sets out->wanted, and out->count and out->lined to 0. */
void lt_walk_lua(struct lt_vm *vm, const struct lt_stack *host, const struct lt_registers *live,
                 uint64_t code, size_t size, struct lua_frames *out);

#endif
