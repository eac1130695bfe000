/* containers.h - containers: blocks that another allocator has divided into its own blocks.
 *
 * A pool allocates memory with malloc or mmap and returns parts of it to the program. Live blocks never overlap, and
 * an access belongs to the innermost block. Therefore, when another allocator returns a part of a block, the trace
 * frees the outer block (an implied Free), and it is kept here until its own allocator frees it. Containers of one
 * heap never overlap each other. Containers of different heaps may contain one another (a pool in a pool in a
 * mapping).
 *
 * When memory runs out, functions fail; the containers may then only be destroyed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_CONTAINERS_H
#define MEMTRACE_BLOCKS_CONTAINERS_H

#include "memtrace/blocks/blockmap.h"

struct containers {
    struct blockmap **of_heap; /* by heap id; NULL = the heap has had none yet */
    uint32_t heaps;
};

void containers_destroy(struct containers *a);

/* Add a block that was removed from the map of live blocks. False when out of memory. */
bool containers_add(struct containers *a, const struct block *b);

/* Remove the container of `heap` that begins at addr; false if there is none. */
bool containers_take(struct containers *a, uint32_t heap, uint64_t addr, struct block *out);

/* Remove a container of `heap` that overlaps [base, base + size); false if there is none. */
bool containers_take_overlap(struct containers *a, uint32_t heap, uint64_t base, uint64_t size,
                             struct block *out);

/* Remove any container of `heap`; false if there is none. */
bool containers_take_any(struct containers *a, uint32_t heap, struct block *out);

/* Is the byte at addr in a container of any heap? */
bool containers_hold(const struct containers *a, uint64_t addr);

/* Does a heap have containers? Most heaps have none, and then the functions above need not be called. */
static inline bool containers_has(const struct containers *a, uint32_t heap)
{
    return heap < a->heaps && a->of_heap[heap] && a->of_heap[heap]->live > 0;
}

/* -- blocks that ended because the memory that contained them was freed --
 *
 * A program may mark blocks inside a malloc'd block (MALLOCLIKE_BLOCK, memory pools), free the malloc'd block, and
 * report the frees of the inner blocks only afterwards. GLib does this with closures. The inner blocks ended together
 * with their container, and the later free of each is not an error, once. This table stores them by address and heap.
 *
 * The table holds at most the last RELEASED_MOST blocks, so that memory stays bounded if the later frees never come. */

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
