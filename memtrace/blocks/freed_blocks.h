/* freed_blocks.h - freed blocks, and the parts of their memory that no other block has used since.
 *
 * They show which accesses outside live blocks are accesses to freed memory, and which invalid frees are double
 * frees. The last FREED_MOST blocks are kept, so that memory stays bounded. The owner calls freed_cover when memory
 * is allocated again. Freed blocks there are then reduced: the parts before and after remain, unless they are so
 * small that they can only be padding or headers of the allocator. Freed blocks never overlap.
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
    /* the note of a block is its index in `order`; base and size are those that remain */
    struct blockmap map;
    uint64_t *bases;     /* base addresses of the original blocks, by slot */
    uint32_t *order;     /* ring of slots, in the order in which the blocks were freed */
    uint32_t next;       /* index of the next entry, which replaces the oldest */
    bool closed;         /* functions do nothing and find nothing */
    bool failed;         /* memory ran out */
};

/* `closed` is for traces that do not record accesses to freed memory. */
bool freed_init(struct freed_blocks *g, bool closed);
void freed_destroy(struct freed_blocks *g);

/* Add a block that was just freed. False when out of memory. */
bool freed_add(struct freed_blocks *g, const struct block *dead);

/* A block [base, base + size) was allocated: remove its memory from all freed blocks. */
void freed_cover(struct freed_blocks *g, uint64_t base, uint64_t size);

/* If a single freed block contains all of [base, base + size), remove that memory from it and return true. There
 * are no live and no other freed blocks in the range then, so the caller need not search for them. */
bool freed_take(struct freed_blocks *g, uint64_t base, uint64_t size);

/* The freed block that contained the byte at addr, or NULL. */
static inline const struct block *freed_find(const struct freed_blocks *g, uint64_t addr)
{
    uint32_t slot = blockmap_find(&g->map, addr);
    return slot == NO_SLOT ? NULL : &g->map.blocks[slot];
}

/* The freed block that began at addr, or NULL. */
static inline const struct block *freed_at(const struct freed_blocks *g, uint64_t addr)
{
    uint32_t slot = blockmap_at(&g->map, addr);
    return slot == NO_SLOT || g->bases[slot] != addr ? NULL : &g->map.blocks[slot];
}

/* The original base address of a freed block. What remains of it begins there or later. */
static inline uint64_t freed_base(const struct freed_blocks *g, const struct block *dead)
{
    return g->bases[dead - g->map.blocks];
}

#endif
