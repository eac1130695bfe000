/* freed_blocks.h - blocks that were freed, and of each the memory that no other block has taken since.
 *
 * With them, accesses to freed memory and double frees can be distinguished from those that have nothing to do with
 * the heap. The last FREED_MOST are remembered, so that memory stays bounded; older ones are forgotten. The
 * owner says when memory is taken again (freed_cover). The freed block is cut then: what is left before and
 * after is still memory of that block, unless it is so small that allocators have no use for it (padding,
 * headers). Freed blocks never overlap.
 *
 * When memory runs out, functions fail, and only freed_destroy may be called.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_FREED_BLOCKS_H
#define MEMTRACE_BLOCKS_FREED_BLOCKS_H

#include "memtrace/blocks/blockmap.h"

enum { FREED_MOST = 1 << 16, FREED_LEAST = 32 };

struct freed_blocks {
    struct blockmap map; /* a block's note is its place in `order`; base and size are of what is left */
    uint64_t *bases;     /* of the blocks as they were, by slot */
    uint32_t *order;     /* slots in order of death, a ring */
    uint32_t next;       /* where the next one goes, and the oldest is */
    bool closed;         /* none is remembered: all functions do nothing and find nothing */
    bool failed;         /* memory ran out */
};

/* `closed` for a trace that does not want to know. */
bool freed_init(struct freed_blocks *g, bool closed);
void freed_destroy(struct freed_blocks *g);

/* Remember a block that has died; its memory is no other's. False when out of memory. */
bool freed_add(struct freed_blocks *g, const struct block *dead);

/* A live block, [base, base + size), is made: cut what it takes off every freed block. */
void freed_cover(struct freed_blocks *g, uint64_t base, uint64_t size);

/* Cut the freed block that holds the whole of [base, base + size), and say that there is one. Then no live block
 * and no other freed one is there: nothing else has to be looked for. */
bool freed_take(struct freed_blocks *g, uint64_t base, uint64_t size);

/* The dead block that held the byte at addr, or NULL. */
static inline const struct block *freed_find(const struct freed_blocks *g, uint64_t addr)
{
    uint32_t slot = blockmap_find(&g->map, addr);
    return slot == NO_SLOT ? NULL : &g->map.blocks[slot];
}

/* The dead block that began at addr, or NULL. */
static inline const struct block *freed_at(const struct freed_blocks *g, uint64_t addr)
{
    uint32_t slot = blockmap_at(&g->map, addr);
    return slot == NO_SLOT || g->bases[slot] != addr ? NULL : &g->map.blocks[slot];
}

/* Where a freed block began while it lived: at or before what is left of it. */
static inline uint64_t freed_base(const struct freed_blocks *g, const struct block *dead)
{
    return g->bases[dead - g->map.blocks];
}

#endif
