/* heap_events.c - write the events of all heaps into the ring.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/ring/block_filter.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "memtrace/memtrace.h"

struct lt_blocks_seen lt_blocks_seen = {.lowest = ~(Addr)0};

static void (*s_before_end)(void); /* NULL = none */

/* The slot that stands for the heap in the ring. */
static UInt slot_of(Addr heap)
{
    static Addr slots[RING_HEAP_SLOTS]; /* as the collector knows them: the C heap's */
    UInt slot = lt_hash_slot(heap, 6);
    if (slots[slot] != heap) {
        slots[slot] = heap;
        HOST_PUT(slot, .slot = slot, .heap = heap);
    }
    return slot;
}

static inline struct raw_stack reference(const struct lt_stack *stack)
{
    return (struct raw_stack){stack->id, stack->depth, (const uint64_t *)stack->ips};
}

void lt_before_block_ends(void (*f)(void))
{
    s_before_end = f;
}

static inline void before_end(void)
{
    if (s_before_end)
        s_before_end();
}

/* A block is there, or has grown. */
static inline void note_block(Addr addr, SizeT size, UInt how)
{
    if (how != MT_HOW_LUA) {
        if (addr < lt_blocks_seen.lowest)
            lt_blocks_seen.lowest = addr;
        if (addr + size > lt_blocks_seen.highest)
            lt_blocks_seen.highest = addr + size;
    }
    if (lt_options.trace_mem)
        lt_filter_add(addr, size);
}

void host_block_new(Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack)
{
    struct ring_new r = {.how = how,
                         .addr = addr,
                         .size = size,
                         .instructions = lt_ring->instructions,
                         .stack = reference(stack)};
    lt_blocks_seen.bytes += size;
    note_block(addr, size, how);
    r.slot = slot_of(heap);
    ring_put_new(&r);
}

void host_block_free(Addr addr, Addr heap, UInt how, const struct lt_stack *stack)
{
    struct ring_free r = {
        .how = how, .addr = addr, .instructions = lt_ring->instructions, .stack = reference(stack)};
    before_end();
    r.slot = slot_of(heap);
    ring_put_free(&r);
}

void host_block_resize(Addr old, Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack)
{
    struct ring_resize r = {.how = how,
                            .old = old,
                            .addr = addr,
                            .size = size,
                            .instructions = lt_ring->instructions,
                            .stack = reference(stack)};
    note_block(addr, size, how);
    before_end();
    r.slot = slot_of(heap);
    ring_put_resize(&r);
}

void host_await_free(Addr addr)
{
    (void)addr; /* all ends are seen */
}

void host_block_type(Addr addr, Addr heap, UInt type)
{
    ring_put_type(&(struct ring_type){.slot = slot_of(heap), .type = type, .addr = addr});
}

void lt_put_trim(Addr heap, Addr addr, SizeT size, const struct lt_stack *stack)
{
    before_end();
    HOST_PUT(trim, .heap = heap, .addr = addr, .size = size, .instructions = lt_ring->instructions,
             .stack = reference(stack));
}

void lt_put_unmap(Addr heap, Addr addr, SizeT size, const struct lt_stack *stack)
{
    before_end();
    HOST_PUT(unmap, .heap = heap, .addr = addr, .size = size, .instructions = lt_ring->instructions,
             .stack = reference(stack));
}

void lt_put_remap(Addr heap, Addr old, SizeT old_size, Addr addr, SizeT size, const struct lt_stack *stack)
{
    before_end();
    HOST_PUT(remap, .heap = heap, .old = old, .old_size = old_size, .addr = addr, .size = size,
             .instructions = lt_ring->instructions, .stack = reference(stack));
}
