/* records.c - records and heap events of the reader of LuaJIT (ljtrace/luajit/host.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Joined stacks of Lua and C have numbers of their own, above those of C stacks (ljtrace/native/inside/stacks.c).
 */
#include "ljtrace/native/inside/host/records.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/inside/sample.h"
#include "ljtrace/native/inside/unseen.h"

static uint64_t s_time; /* of the event */

void host_set_time(void)
{
    s_time = native_now();
}

uint64_t host_time(void)
{
    return s_time;
}

struct raw_text host_text(const char *text)
{
    return native_text(text);
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
    void host_put_##name(const struct ring_##name *r)                                                        \
    {                                                                                                        \
        native_put_##name(r);                                                                                \
    }
#define FAST_RECORD(NAME, name, fields)
#include "ljtrace/protocol/ring.def"

static uint64_t s_slots[RING_HEAP_SLOTS]; /* the heap of each slot */

void host_records_restart(void)
{
    for (uint32_t i = 0; i < RING_HEAP_SLOTS; i++)
        s_slots[i] = 0;
}

/* The slot that stands for the heap in the ring. The slots below these are for other heaps. */
static uint32_t slot_of(uint64_t heap)
{
    uint32_t slot = 1 + lt_hash_slot(heap, 5);
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

void host_block_new(uint64_t addr, size_t size, uint64_t heap, uint32_t how, const struct lt_stack *stack)
{
    if (native_ring_drops(RING_LOST_NEW) || (native_sample_mean && !native_sample_add(addr, heap)))
        return;
    uint32_t slot = slot_of(heap);
    unseen_count(size > native_sample_mean ? size : native_sample_mean);
    NATIVE_PUT(new, .slot = slot, .how = how, .addr = addr, .size = size, .instructions = s_time,
               .stack = host_stack(stack));
}

void host_block_free(uint64_t addr, uint64_t heap, uint32_t how, const struct lt_stack *stack)
{
    if ((native_sample_mean && !native_sample_remove(addr)) || native_ring_drops(RING_LOST_FREE))
        return;
    uint32_t slot = slot_of(heap);
    NATIVE_PUT(free, .slot = slot, .how = how, .addr = addr, .instructions = s_time,
               .stack = host_stack(stack));
}

void host_block_resize(uint64_t old, uint64_t addr, size_t size, uint64_t heap, uint32_t how,
                       const struct lt_stack *stack)
{
    if (native_sample_mean) {
        host_block_free(old, heap, how, stack);
        if (native_countdown.chosen)
            host_block_new(addr, size, heap, how, stack);
        return;
    }
    if (native_ring_drops(RING_LOST_RESIZE))
        return;
    uint32_t slot = slot_of(heap);
    unseen_count(size);
    NATIVE_PUT(resize, .slot = slot, .how = how, .old = old, .addr = addr, .size = size,
               .instructions = s_time, .stack = host_stack(stack));
}

void host_await_free(uint64_t addr)
{
    native_sample_await(addr);
}

void host_block_type(uint64_t addr, uint64_t heap, uint32_t type)
{
    if ((native_sample_mean && !native_sample_holds(addr)) || native_ring_drops(RING_LOST_OTHER))
        return;
    uint32_t slot = slot_of(heap);
    NATIVE_PUT(type, .slot = slot, .type = type, .addr = addr);
}
