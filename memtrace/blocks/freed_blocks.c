/* freed_blocks.c - keeps freed blocks, without the parts whose memory was allocated again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/blocks/freed_blocks.h"

#include <stdlib.h>

bool freed_init(struct freed_blocks *g, bool closed)
{
    *g = (struct freed_blocks){.closed = closed};
    bool ok = blockmap_init(&g->map);
    g->order = malloc(FREED_MOST * sizeof *g->order);
    g->bases = malloc(FREED_MOST * sizeof *g->bases);
    for (uint32_t i = 0; g->order && i < FREED_MOST; i++)
        g->order[i] = NO_SLOT;
    return ok && g->order && g->bases;
}

void freed_destroy(struct freed_blocks *g)
{
    blockmap_destroy(&g->map);
    free(g->order);
    free(g->bases);
}

/* Make room: remove the oldest block, unless all of it was allocated again long ago. */
static void drop_oldest(struct freed_blocks *g)
{
    uint32_t slot = g->order[g->next];
    if (slot == NO_SLOT)
        return;
    const struct block *b = &g->map.blocks[slot];
    if (b->heap != DEAD_HEAP && b->note == g->next)
        blockmap_remove(&g->map, slot);
}

/* Add the rest of a block that began at `base`. There are not more slots than entries of `order`. */
static bool add(struct freed_blocks *g, const struct block *left, uint64_t base)
{
    drop_oldest(g);
    uint32_t slot = blockmap_add(&g->map, left->base, left->size, left->heap, left->handle);
    if (slot == NO_SLOT)
        return false;
    g->map.blocks[slot].note = g->next;
    g->bases[slot] = base;
    g->order[g->next] = slot;
    g->next = (g->next + 1) % FREED_MOST;
    return true;
}

bool freed_add(struct freed_blocks *g, const struct block *dead)
{
    g->failed |= !g->closed && !add(g, dead, dead->base);
    return !g->failed;
}

/* -- cutting -- */

struct span {
    uint64_t first, last;
};

static unsigned keep(struct span *to, uint64_t first, uint64_t last)
{
    *to = (struct span){first, last};
    return last - first >= FREED_LEAST - 1;
}

/* Compute what remains of a freed block without [first, last]; returns the number of parts. A large freed block is
 * mostly reused by many small blocks, from its beginning. Shortening it each time would process all its pages, so
 * the part near the beginning becomes a block of its own. */
static unsigned find_rests(const struct block *b, uint64_t first, uint64_t last, struct span rests[3])
{
    const uint64_t near = 1 << 16, granule = 1 << GRANULE_BITS, end = span_last(b->base, b->size);
    unsigned n = first > b->base ? keep(rests, b->base, first - 1) : 0;
    last |= granule - 1;
    if (last < end && end - last > 2 * near) {
        uint64_t border = (last + 1) | (near - 1);
        n += keep(rests + n, last + 1, border);
        last = border;
    }
    return last < end ? n + keep(rests + n, last + 1, end) : n;
}

/* Replace the block by its parts. The first part keeps the slot. */
static void cut(struct freed_blocks *g, uint32_t slot, uint64_t first, uint64_t last)
{
    struct block b = g->map.blocks[slot];
    const uint64_t base = g->bases[slot];
    struct span rests[3];
    unsigned n = find_rests(&b, first, last, rests);
    if (n == 0) {
        blockmap_remove(&g->map, slot);
        return;
    }
    g->failed |= !blockmap_move(&g->map, slot, rests[0].first, rests[0].last - rests[0].first + 1);
    for (unsigned i = 1; i < n && !g->failed; i++) {
        b.base = rests[i].first;
        b.size = rests[i].last - rests[i].first + 1;
        g->failed = !add(g, &b, base);
    }
}

bool freed_take(struct freed_blocks *g, uint64_t base, uint64_t size)
{
    uint32_t slot = blockmap_find(&g->map, base);
    if (slot == NO_SLOT || size - 1 >= g->map.blocks[slot].size - (base - g->map.blocks[slot].base))
        return false;
    cut(g, slot, base, base + size - 1);
    return true;
}

void freed_cover(struct freed_blocks *g, uint64_t base, uint64_t size)
{
    uint32_t slot;
    while (!g->failed && g->map.live && (slot = blockmap_overlap(&g->map, base, size, NO_SLOT)) != NO_SLOT)
        cut(g, slot, base, span_last(base, size));
}
