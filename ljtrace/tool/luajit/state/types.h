/* types.h - what the blocks of Lua heaps hold. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A block is filled in after the allocator returned it, and before its state asks for the next: then it is
 * looked at. An object says itself what it is; that it does is checked against its size. A part of an object
 * is known by the pointer to it: from the global state, from the thread, or from a table or string.buffer
 * among those that the code that asked for the block had at hand.
 */
#ifndef LJTRACE_TOOL_LUAJIT_STATE_TYPES_H
#define LJTRACE_TOOL_LUAJIT_STATE_TYPES_H

#include "ljtrace/tool/luajit/core/states.h"

/* A block was made there; its type comes later. `sp`: the stack pointer of the code that asked for it,
 * `saved`: its registers from RBX to R15, as they lie side by side. */
void lt_types_made(struct lt_vm *vm, Addr block, SizeT size, Addr sp, const ULong *saved);
/* The state's next heap event comes: tell the type of what was made last. `gone`: the block that is going to
 * be freed, of that size; 0 = none. */
void lt_types_settle(struct lt_vm *vm, Addr gone, SizeT gone_size);
void lt_types_begin(struct lt_vm *vm);
void lt_types_end(struct lt_vm *vm);
/* A block turned out to be another state's first: it is no state's that it was made for. */
void lt_types_unmade(Addr block);
/* The state's first block is this: tell. */
void lt_types_global(const struct lt_vm *vm, Addr block);

#endif
