/* graves.h - blocks that died, and of each what no other block has taken since.
 *
 * With them accesses to freed memory and double frees can be told from those that have nothing to do with
 * the heap. Holds the last GRAVES_MOST at most, so that memory stays bounded; older ones are forgotten. The
 * owner says when memory is taken again (graves_cover). Then a grave is cut: what is left before and behind
 * are graves of the same block, unless they are so small that allocators have no use for them (padding,
 * headers). Graves never overlap.
 *
 * When memory runs out, functions fail, and the graves may only be destroyed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_GRAVES_H
#define MEMTRACE_GRAVES_H

#include "blockmap.h"

enum { GRAVES_MOST = 1 << 16, GRAVE_LEAST = 32 };

struct graves {
    struct blockmap map; /* a block's note is its place in `order`; base and size are of what is left */
    uint64_t *bases;     /* of the blocks as they were, by slot */
    uint32_t *order;     /* slots in order of death, a ring */
    uint32_t next;       /* where the next one goes, and the oldest stands */
    bool closed;         /* none is remembered: all functions do nothing and find nothing */
    bool failed;         /* memory ran out */
};

/* `closed` for a trace that does not want to know. */
bool graves_init(struct graves *g, bool closed);
void graves_destroy(struct graves *g);

/* Remember a block that has died; its memory is no other's. False when out of memory. */
bool graves_add(struct graves *g, const struct block *dead);

/* A live block, [base, base + size), comes to lie there: cut every grave. */
void graves_cover(struct graves *g, uint64_t base, uint64_t size);

/* Cut the grave that holds the whole of [base, base + size), and say that there is one. Then no live block
 * lies there, and no other grave: nothing else has to be looked for. */
bool graves_take(struct graves *g, uint64_t base, uint64_t size);

/* The dead block that held the byte at addr, or NULL. */
static inline const struct block *graves_find(const struct graves *g, uint64_t addr)
{
    uint32_t slot = blockmap_find(&g->map, addr);
    return slot == NO_SLOT ? NULL : &g->map.blocks[slot];
}

/* The dead block that began at addr, or NULL. */
static inline const struct block *graves_at(const struct graves *g, uint64_t addr)
{
    uint32_t slot = blockmap_at(&g->map, addr);
    return slot == NO_SLOT || g->bases[slot] != addr ? NULL : &g->map.blocks[slot];
}

/* Where a block of the graves began while it lived: not behind its grave. */
static inline uint64_t graves_base(const struct graves *g, const struct block *dead)
{
    return g->bases[dead - g->map.blocks];
}

#endif
