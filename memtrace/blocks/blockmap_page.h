/* blockmap_page.h - one page of the block map in 16-byte granules; used by blockmap.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_BLOCKMAP_PAGE_H
#define MEMTRACE_BLOCKS_BLOCKMAP_PAGE_H

#include "memtrace/blocks/blockmap.h"

/* A clear leaf; NULL when out of memory. */
struct leaf *leaf_new(struct blockmap *m);
void leaf_release(struct blockmap *m, struct leaf *leaf);

/* Enter or take out the part of a block that lies in [first, last], addresses of the leaf's page. */
bool leaf_add(struct blockmap *m, struct leaf *leaf, uint32_t slot, uint64_t first, uint64_t last);
void leaf_remove(struct blockmap *m, struct leaf *leaf, uint32_t slot, uint64_t first, uint64_t last);

/* A block other than `except` that overlaps [first, last], or NO_SLOT. */
uint32_t leaf_overlap(const struct blockmap *m, const struct leaf *leaf, uint64_t first, uint64_t last,
                      uint32_t except);

#endif
