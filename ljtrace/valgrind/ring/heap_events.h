/* heap_events.h - events of heaps, whichever the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Those of single blocks are declared in ljtrace/luajit/host.h (host_block_new and its like).
 *
 * The heap of an event is written as a slot, a small number in the record's header, which has been given to the heap
 * before.
 */
#ifndef LJTRACE_VALGRIND_RING_HEAP_EVENTS_H
#define LJTRACE_VALGRIND_RING_HEAP_EVENTS_H

#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/protocol/ring.h"
#include "pub_tool_basics.h"

/* Of a range of a heap: only it remains; it is gone; it has moved. */
void lt_put_trim(Addr heap, Addr addr, SizeT size, const struct lt_stack *stack);
void lt_put_unmap(Addr heap, Addr addr, SizeT size, const struct lt_stack *stack);
void lt_put_remap(Addr heap, Addr old, SizeT old_size, Addr addr, SizeT size, const struct lt_stack *stack);

/* Call f before the next event that ends or moves a block; NULL = call nothing. */
void lt_before_block_ends(void (*f)(void));

/* All blocks so far: the bytes of new ones, and the range of addresses of those that are not LuaJIT's. */
extern struct lt_blocks_seen {
    ULong bytes;
    Addr lowest, highest;
} lt_blocks_seen;

#endif
