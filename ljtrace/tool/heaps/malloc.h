/* malloc.h - malloc and its relatives: the program's C heap. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_HEAPS_MALLOC_H
#define LJTRACE_TOOL_HEAPS_MALLOC_H

#include "ljtrace/protocol/ring.h"
#include "ljtrace/tool/stacks/unwind.h"

/* Replace malloc and its relatives in the program. */
void lt_heap_init(void);

/* Begin or end hiding: what this thread allocates meanwhile is the recorder's own (in the preload), and is
 * not recorded. */
void lt_heap_hide(ThreadId tid, Bool hide);
Bool lt_heap_is_hiding(ThreadId tid);

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

/* Write heap events; `heap` is RAW_HEAP_C or an allocator's state pointer. */
void lt_put_new(Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack);
void lt_put_free(Addr addr, Addr heap, UInt how, const struct lt_stack *stack);
void lt_put_resize(Addr old, Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack);
/* What the block holds: enum mt_type. */
void lt_put_type(Addr addr, Addr heap, UInt type);
/* Of a range of a heap: only it remains; it is gone; it has moved. */
void lt_put_trim(Addr heap, Addr addr, SizeT size, const struct lt_stack *stack);
void lt_put_unmap(Addr heap, Addr addr, SizeT size, const struct lt_stack *stack);
void lt_put_remap(Addr heap, Addr old, SizeT old_size, Addr addr, SizeT size, const struct lt_stack *stack);

#endif
