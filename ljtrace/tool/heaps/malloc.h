/* malloc.h - the program's C heap. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_HEAPS_MALLOC_H
#define LJTRACE_TOOL_HEAPS_MALLOC_H

#include "ljtrace/protocol/ring.h"
#include "ljtrace/tool/stacks/unwind.h"

/* Replace malloc and its relatives in the program. */
void lt_heap_init(void);

/* What this thread allocates while hidden is the recorder's own (in the preload), and never in the trace. */
void lt_heap_hide(ThreadId tid, Bool hide);
Bool lt_heap_is_hiding(ThreadId tid);

/* For the preload's functions: a block of `how` (enum mt_how; calloc's is zeroed), aligned to `align` bytes
 * at least (a power of two; 0 = as malloc does). NULL if there is no room. */
void *lt_heap_new(ThreadId tid, SizeT size, SizeT align, UInt how);
/* As realloc of a block, aligned as above; zero: what it gains is zeroed. NULL, and nothing changes, if there is no
 * room. */
void *lt_heap_resize(ThreadId tid, Addr old, SizeT size, SizeT align, Bool zero);
/* A free by a function that may free blocks made in any way. */
void lt_heap_free(ThreadId tid, Addr addr);
/* Is there a block, or memory that blocks come from? Else another allocator's blocks are there. */
Bool lt_heap_owns(Addr addr);
/* Size of the block that begins at addr; 0 = there is none. */
SizeT lt_heap_bytes(Addr addr);
/* A block that was made in another way is the program's by `how` from now on; told as a free by `freed` and a
 * new one. */
void lt_heap_made_by(ThreadId tid, Addr addr, UInt freed, UInt how);

/* Write heap events; `heap` is RAW_HEAP_C or an allocator's state pointer. */
void lt_put_new(Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack);
void lt_put_free(Addr addr, Addr heap, UInt how, const struct lt_stack *stack);
void lt_put_resize(Addr old, Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack);
/* What the block holds: enum mt_type. */
void lt_put_type(Addr addr, Addr heap, UInt type);
/* Write an event with n words before its stack, which need not be told if it has a number. */
void lt_put_event(enum raw_type type, const uint64_t *words, UInt n, const struct lt_stack *stack);

#endif
