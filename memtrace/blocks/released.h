/* released.h - blocks that ended because the memory they were cut from was freed.
 *
 * A program may mark blocks inside a malloc'd block (MALLOCLIKE_BLOCK, memory pools), free the malloc'd block, and only
 * then say that the inner blocks are freed. GLib's closures are freed so. The inner blocks have ended with their
 * container, and the late free of each is legal: once. This table knows them by address and heap.
 *
 * Holds the last RELEASED_MOST at most, so that memory stays bounded where the late free never comes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_RELEASED_H
#define MEMTRACE_BLOCKS_RELEASED_H

#include "memtrace/blocks/page_table.h"

enum { RELEASED_MOST = 1 << 16 };

struct released {
    struct page_table heaps; /* address -> heap + 1 | number of the entry << 32; made when needed */
    uint64_t *order;      /* addresses as they were added, a ring of RELEASED_MOST */
    uint64_t added;
};

/* All zero is an empty table. */
void released_destroy(struct released *r);

/* Remember a block. False when out of memory. */
bool released_add(struct released *r, uint64_t addr, uint32_t heap);

/* Forget the block of `heap` at addr; false if there is none. */
bool released_take(struct released *r, uint64_t addr, uint32_t heap);

/* Remember all blocks of another table. False when out of memory. */
bool released_copy(struct released *to, const struct released *from);

/* The rule is that there are none: then nothing has to be looked for. */
static inline bool released_any(const struct released *r)
{
    return r->heaps.count > 0;
}

#endif
