/* released.h - blocks that ended because the memory that contained them was freed.
 *
 * A program may mark blocks inside a malloc'd block (MALLOCLIKE_BLOCK, memory pools), free the malloc'd block, and
 * report the frees of the inner blocks only afterwards. GLib does this with closures. The inner blocks ended together
 * with their container, and the later free of each is not an error, once. This table stores them by address and heap.
 *
 * The table holds at most the last RELEASED_MOST blocks, so that memory stays bounded if the later frees never come.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_RELEASED_H
#define MEMTRACE_BLOCKS_RELEASED_H

#include "memtrace/blocks/page_table.h"

enum { RELEASED_MOST = 1 << 16 };

struct released {
    struct page_table heaps; /* address -> heap + 1 | number of the entry << 32; allocated when needed */
    uint64_t *order;         /* ring of the addresses, in the order in which they were added */
    uint64_t added;
};

/* A zeroed table is empty. */
void released_destroy(struct released *r);

/* Add a block. False when out of memory. */
bool released_add(struct released *r, uint64_t addr, uint32_t heap);

/* Remove the block of `heap` at addr; false if there is none. */
bool released_take(struct released *r, uint64_t addr, uint32_t heap);

/* Add all blocks of another table. False when out of memory. */
bool released_copy(struct released *to, const struct released *from);

/* Is the table empty? It mostly is, and then no look-up is needed. */
static inline bool released_any(const struct released *r)
{
    return r->heaps.count > 0;
}

#endif
