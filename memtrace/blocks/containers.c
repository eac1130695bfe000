/* containers.c - keeps the blocks that other allocators have divided, in one block map per heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/blocks/containers.h"

#include <stdlib.h>
#include <string.h>

void containers_destroy(struct containers *a)
{
    for (uint32_t i = 0; i < a->heaps; i++) {
        if (a->of_heap[i])
            blockmap_destroy(a->of_heap[i]);
        free(a->of_heap[i]);
    }
    free(a->of_heap);
}

static bool reach(struct containers *a, uint32_t heap)
{
    uint32_t heaps = 2 * heap + 8;
    if (heap < a->heaps)
        return true;
    struct blockmap **grown = reallocarray(a->of_heap, heaps, sizeof(struct blockmap *));
    if (!grown)
        return false;
    memset(grown + a->heaps, 0, (heaps - a->heaps) * sizeof(struct blockmap *));
    a->of_heap = grown;
    a->heaps = heaps;
    return true;
}

static struct blockmap *map_of(struct containers *a, uint32_t heap)
{
    if (!reach(a, heap))
        return NULL;
    struct blockmap *m = a->of_heap[heap];
    if (m)
        return m;
    m = calloc(1, sizeof *m);
    a->of_heap[heap] = m;
    return m && blockmap_init(m) ? m : NULL;
}

bool containers_add(struct containers *a, const struct block *b)
{
    struct blockmap *m = map_of(a, b->heap);
    uint32_t slot = m ? blockmap_add(m, b->base, b->size, b->heap, b->handle) : NO_SLOT;
    if (slot != NO_SLOT)
        m->blocks[slot].note = b->note;
    return slot != NO_SLOT;
}

static bool take(struct containers *a, uint32_t heap, uint32_t slot, struct block *out)
{
    if (slot == NO_SLOT)
        return false;
    *out = a->of_heap[heap]->blocks[slot];
    blockmap_remove(a->of_heap[heap], slot);
    return true;
}

bool containers_take(struct containers *a, uint32_t heap, uint64_t addr, struct block *out)
{
    return containers_has(a, heap) && take(a, heap, blockmap_at(a->of_heap[heap], addr), out);
}

bool containers_take_overlap(struct containers *a, uint32_t heap, uint64_t base, uint64_t size,
                             struct block *out)
{
    return containers_has(a, heap) &&
           take(a, heap, blockmap_overlap(a->of_heap[heap], base, size, NO_SLOT), out);
}

bool containers_take_any(struct containers *a, uint32_t heap, struct block *out)
{
    if (!containers_has(a, heap))
        return false;
    const struct blockmap *m = a->of_heap[heap];
    uint32_t slot = 0;
    while (m->blocks[slot].heap == DEAD_HEAP)
        slot++;
    return take(a, heap, slot, out);
}

bool containers_hold(const struct containers *a, uint64_t addr)
{
    for (uint32_t heap = 0; heap < a->heaps; heap++)
        if (containers_has(a, heap) && blockmap_find(a->of_heap[heap], addr) != NO_SLOT)
            return true;
    return false;
}

/* -- keeps blocks that ended with their container. -- */

void released_destroy(struct released *r)
{
    if (r->order)
        page_table_free(&r->heaps);
    free(r->order);
}

static bool make(struct released *r)
{
    r->order = malloc(RELEASED_MOST * sizeof *r->order);
    if (r->order && page_table_init(&r->heaps))
        return true;
    free(r->order);
    r->order = NULL;
    return false;
}

static uint64_t value_of(uint64_t number, uint32_t heap)
{
    return (number & UINT32_MAX) << 32 | (heap + 1);
}

/* Remove the entry whose place in the ring is needed, unless it was removed or added again since. */
static void forget_oldest(struct released *r)
{
    uint64_t addr = r->order[r->added % RELEASED_MOST], value = page_table_get(&r->heaps, addr);
    if (value && value >> 32 == ((r->added - RELEASED_MOST) & UINT32_MAX))
        page_table_delete(&r->heaps, addr);
}

bool released_add(struct released *r, uint64_t addr, uint32_t heap)
{
    if (!r->order && !make(r))
        return false;
    if (r->added >= RELEASED_MOST)
        forget_oldest(r);
    r->order[r->added % RELEASED_MOST] = addr;
    return page_table_set(&r->heaps, addr, value_of(r->added++, heap));
}

bool released_take(struct released *r, uint64_t addr, uint32_t heap)
{
    uint64_t value = released_any(r) ? page_table_get(&r->heaps, addr) : 0;
    if ((uint32_t)value != heap + 1)
        return false;
    page_table_delete(&r->heaps, addr);
    return true;
}

bool released_copy(struct released *to, const struct released *from)
{
    uint64_t first = from->added < RELEASED_MOST ? 0 : from->added - RELEASED_MOST;
    for (uint64_t i = first; i < from->added; i++) {
        uint64_t addr = from->order[i % RELEASED_MOST], value = page_table_get(&from->heaps, addr);
        if (value && value >> 32 == (i & UINT32_MAX) && !released_add(to, addr, (uint32_t)value - 1))
            return false;
    }
    return true;
}
