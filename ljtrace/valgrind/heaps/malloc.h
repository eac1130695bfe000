/* malloc.h - malloc and its relatives: the program's C heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_HEAPS_MALLOC_H
#define LJTRACE_VALGRIND_HEAPS_MALLOC_H

#include "ljtrace/luajit/base/call_stack.h"
#include "pub_tool_basics.h"

/* The stack of the event that is being recorded: of Lua, too, if the thread runs it. Valid up to the next call. */
const struct lt_stack *lt_own_stack(ThreadId tid);

/* Replace malloc and its relatives in the program. */
void lt_heap_init(void);

/* The following functions are for the preload.
 * Allocate a block as `how` does (enum mt_how; calloc zeroes it), aligned to at least `align` bytes (a power
 * of two; 0 = as malloc). Returns NULL if there is no memory. */
void *lt_heap_new(ThreadId tid, SizeT size, SizeT align, UInt how);
/* Resize a block like realloc, aligned as above. zero: the bytes that it gains are zeroed. Returns NULL, and
 * changes nothing, if there is no memory. */
void *lt_heap_resize(ThreadId tid, Addr old, SizeT size, SizeT align, Bool zero);
/* Free a block, by a function that may free blocks however they were allocated. */
void lt_heap_free(ThreadId tid, Addr addr);
/* Does this address belong to a block, or to memory from which blocks are allocated? If not, it belongs to
 * another allocator. */
Bool lt_heap_owns(Addr addr);
/* The size of the block that begins at addr; 0 = there is none. */
SizeT lt_heap_bytes(Addr addr);
/* From now on the block counts as allocated by `how`. It is recorded as a free by `freed` and a new block. */
void lt_heap_made_by(ThreadId tid, Addr addr, UInt freed, UInt how);

#endif
