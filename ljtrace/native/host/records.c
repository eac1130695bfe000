/* records.c - records and heap events of the code that is shared with the tool.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Implements ljtrace/tool/ring/records.h and heap_events.h by the native ring. Joined stacks of Lua and C have numbers of
 * their own, above those of C stacks (ljtrace/native/inside/stacks.c).
 */
#include "ljtrace/tool/ring/records.h"
#include "ljtrace/native/host/records.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/inside/sample.h"
#include "ljtrace/native/inside/unseen.h"
#include "ljtrace/tool/base/hash.h"
#include "ljtrace/tool/ring/heap_events.h"

/* The shared code takes only the time of an event from here. */
static struct ring_header s_ring;
struct ring_header *lt_ring = &s_ring;

void host_set_time(void)
{
    s_ring.instructions = native_now();
}

static void put_stack(const struct ring_stack *r)
{
    struct ring_stack own = *r;
    own.number += RING_KEPT_STACKS;
    native_put_stack(&own);
}

static void put_close(const struct ring_close *r)
{
    native_sample_heap_ended(r->heap);
    native_put_close(r);
}

static void put_rename(const struct ring_rename *r)
{
    native_sample_heap_moved(r->from, r->to);
    native_put_rename(r);
}

#define native_put_stack put_stack
#define native_put_close put_close
#define native_put_rename put_rename
#define RECORD(NAME, name, fields)                                                                           \
    void lt_ring_put_##name(const struct ring_##name *r)                                                     \
    {                                                                                                        \
        native_put_##name(r);                                                                                \
    }
#define FAST_RECORD(NAME, name, fields)
#include "ljtrace/protocol/ring.def"

static Addr s_slots[RING_HEAP_SLOTS]; /* the heap of each slot */

void host_records_restart(void)
{
    for (UInt i = 0; i < RING_HEAP_SLOTS; i++)
        s_slots[i] = 0;
}

/* The slot that stands for the heap in the ring. The slots below these are for other heaps. */
static UInt slot_of(Addr heap)
{
    UInt slot = 1 + lt_hash_slot(heap, 5);
    if (s_slots[slot] != heap) {
        s_slots[slot] = heap;
        NATIVE_PUT(slot, .slot = slot, .heap = heap);
    }
    return slot;
}

struct raw_stack host_stack(const struct lt_stack *stack)
{
    return (struct raw_stack){stack->id ? stack->id + RING_KEPT_STACKS : 0, stack->depth, stack->ips};
}

void lt_put_new(Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack)
{
    if (native_ring_drops(RING_LOST_NEW) || (native_sample_mean && !native_sample_add(addr, heap)))
        return;
    UInt slot = slot_of(heap);
    unseen_count(size > native_sample_mean ? size : native_sample_mean);
    NATIVE_PUT(new, .slot = slot, .how = how, .addr = addr, .size = size, .instructions = s_ring.instructions,
               .stack = host_stack(stack));
}

void lt_put_free(Addr addr, Addr heap, UInt how, const struct lt_stack *stack)
{
    if ((native_sample_mean && !native_sample_remove(addr)) || native_ring_drops(RING_LOST_FREE))
        return;
    UInt slot = slot_of(heap);
    NATIVE_PUT(free, .slot = slot, .how = how, .addr = addr, .instructions = s_ring.instructions,
               .stack = host_stack(stack));
}

void lt_put_resize(Addr old, Addr addr, SizeT size, Addr heap, UInt how, const struct lt_stack *stack)
{
    if (native_sample_mean) {
        lt_put_free(old, heap, how, stack);
        if (native_countdown.chosen)
            lt_put_new(addr, size, heap, how, stack);
        return;
    }
    if (native_ring_drops(RING_LOST_RESIZE))
        return;
    UInt slot = slot_of(heap);
    unseen_count(size);
    NATIVE_PUT(resize, .slot = slot, .how = how, .old = old, .addr = addr, .size = size,
               .instructions = s_ring.instructions, .stack = host_stack(stack));
}

void lt_await_free(Addr addr)
{
    native_sample_await(addr);
}

void lt_put_type(Addr addr, Addr heap, UInt type)
{
    if ((native_sample_mean && !native_sample_holds(addr)) || native_ring_drops(RING_LOST_OTHER))
        return;
    UInt slot = slot_of(heap);
    NATIVE_PUT(type, .slot = slot, .type = type, .addr = addr);
}
