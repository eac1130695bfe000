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
