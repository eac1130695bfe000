/* overlay.h - live blocks that may overlap: which of them holds an address?
 *
 * In the traces of the first tool, which saw no realloc, a block may begin where another one is still live.
 * Its programs kept both: an access belongs to the block made last among those that hold its address, and a
 * Free to the block made last among those that begin at its address. This map answers so; all else uses
 * blockmap.h, where live blocks never overlap.
 *
 * A block is entered in pages of the smallest size that is at least its own, in two of them at most, newest
 * first; a query looks at one page of each size in use. Slots are dense and used again, as in blockmap.h.
 * When memory runs out, overlay_add returns NO_SLOT and the map is unchanged.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_OVERLAY_H
#define MEMTRACE_BLOCKS_OVERLAY_H

#include "memtrace/blocks/blockmap.h"

enum { OVERLAY_SIZES = 15 }; /* page sizes: 2^8, 2^12 ... 2^64 */

struct overlay_entry; /* one page's mention of a block */

struct overlay {
    struct block *blocks; /* by slot; handle is the order in which they were made */
    size_t used, room;
    uint32_t free_slot; /* head of the list of free slots, through block.note; NO_SLOT = none */
    uint64_t live;
    struct overlay_entry *entries; /* two for each slot: 2 * slot and 2 * slot + 1 */
    size_t entry_room;
    uint32_t *heads;                 /* hash table of lists of entries, newest first: entry + 1, 0 = end */
    unsigned bits;                   /* it has 2^bits lists; 0 = not made yet */
    uint64_t live_of[OVERLAY_SIZES]; /* blocks entered in pages of each size */
};

/* All zero but the list of free slots: makes nothing yet, cannot fail. */
void overlay_init(struct overlay *o);
void overlay_destroy(struct overlay *o);

/* Enter a block with span_fits(base, size) and a handle above all that were entered. Its slot, or NO_SLOT when
 * out of memory. */
uint32_t overlay_add(struct overlay *o, uint64_t base, uint64_t size, uint32_t heap, uint64_t handle);
void overlay_remove(struct overlay *o, uint32_t slot);

/* The newest block that holds the address (one of size 0 holds none), or that begins there; NO_SLOT = none. */
uint32_t overlay_find(const struct overlay *o, uint64_t addr);
uint32_t overlay_at(const struct overlay *o, uint64_t addr);

#endif
