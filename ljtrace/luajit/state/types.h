/* types.h - the types of blocks in Lua heaps.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A block is filled in after the allocator has returned it and before its state calls the allocator again. At
 * that next call its content is examined; or before, at the end of the recording, a mark, a fork or an exec. An object
 * contains its type, which is checked against its size. A part of an object is recognised by the pointer to it: in the
 * global state, in the thread, or in a table or string.buffer to which the code that allocated had a pointer.
 */
#ifndef LJTRACE_LUAJIT_STATE_TYPES_H
#define LJTRACE_LUAJIT_STATE_TYPES_H

#include "ljtrace/luajit/core/states.h"
#include <stddef.h>
#include <stdint.h>

/* A block was allocated; its type is found later. sp: the stack pointer of the code that called the
 * allocator. saved: its registers from RBX to R15, contiguous. */
void lt_types_made(struct lt_vm *vm, uint64_t block, size_t size, uint64_t sp, const uint64_t *saved);
/* The state's next heap event begins: write the type of the block allocated last. gone: a block that is about
 * to be freed, and its size; 0 = none. */
void lt_types_settle(struct lt_vm *vm, uint64_t gone, size_t gone_size);
/* Perhaps no heap event of any state follows: write the types of the blocks allocated last. A block that is not filled in
 * yet has none, and gets it at the next event of its state. */
void lt_types_settle_all(void);
/* A block turned out to be the first one of another state, so it was not allocated for a known state. */
void lt_types_unmade(uint64_t block);
/* This is the first block of the state: write its type. */
void lt_types_global(const struct lt_vm *vm, uint64_t block);

/* Follow the states that come and go. */
void lt_types_init(void);

#endif
