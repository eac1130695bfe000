/* graves.c - blocks that died and whose memory no other block has taken since; see graves.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "graves.h"

#include <stdlib.h>

bool graves_init(struct graves *g, bool closed)
{
    *g = (struct graves){.closed = closed};
    bool ok = blockmap_init(&g->map);
    g->order = malloc(GRAVES_MOST * sizeof *g->order);
    for (uint32_t i = 0; g->order && i < GRAVES_MOST; i++)
        g->order[i] = NO_SLOT;
    return ok && g->order;
}

void graves_destroy(struct graves *g)
{
    blockmap_destroy(&g->map);
    free(g->order);
}

/* Make room: forget the oldest, unless it was covered long ago. */
static void drop_oldest(struct graves *g)
{
    uint32_t slot = g->order[g->next];
    if (slot == NO_SLOT)
        return;
    const struct block *b = &g->map.blocks[slot];
    if (b->heap != DEAD_HEAP && b->note == g->next)
        blockmap_remove(&g->map, slot);
}

bool graves_add(struct graves *g, const struct block *dead)
{
    if (g->closed)
        return true;
    drop_oldest(g);
    uint32_t slot = blockmap_add(&g->map, dead->base, dead->size, dead->heap, dead->handle);
    if (slot == NO_SLOT)
        return false;
    g->map.blocks[slot].note = g->next;
    g->order[g->next] = slot;
    g->next = (g->next + 1) % GRAVES_MOST;
    return true;
}

bool graves_take(struct graves *g, uint64_t base, uint64_t size)
{
    uint32_t slot = blockmap_find(&g->map, base);
    if (slot == NO_SLOT || size - 1 >= g->map.blocks[slot].size - (base - g->map.blocks[slot].base))
        return false;
    blockmap_remove(&g->map, slot);
    return true;
}

void graves_cover(struct graves *g, uint64_t base, uint64_t size)
{
    uint32_t slot;
    while (g->map.live && (slot = blockmap_overlap(&g->map, base, size, NO_SLOT)) != NO_SLOT)
        blockmap_remove(&g->map, slot);
}
