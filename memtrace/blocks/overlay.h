/* overlay.h - live blocks that may overlap: which of them contains an address?
 *
 * The first Steve's recorder did not record realloc. In its traces, a block may therefore begin where another one is
 * still live. Its programs kept both blocks: an access belongs to the newest block that contains the address, and a
 * Free is of the newest block that begins at its address. This map implements that rule. All other code uses
 * blockmap.h, where live blocks never overlap.
 *
 * A block is entered in pages of the smallest size that is at least its own size, in at most two of them, newest
 * first. A query examines one page of each size in use. Slots are small numbers that are reused, as in blockmap.h.
 * When memory runs out, overlay_add returns NO_SLOT, and the map is unchanged.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_OVERLAY_H
#define MEMTRACE_BLOCKS_OVERLAY_H

#include "memtrace/blocks/blockmap.h"

enum { OVERLAY_SIZES = 15 }; /* page sizes: 2^8, 2^12 ... 2^64 */

struct overlay_entry; /* entry of a block in one page */

struct overlay {
    struct block *blocks; /* by slot; the handle is the order in which they were added */
    size_t used, room;
    uint32_t free_slot; /* head of the list of free slots, through block.note; NO_SLOT = none */
    uint64_t live;
    struct overlay_entry *entries; /* two per slot: 2 * slot and 2 * slot + 1 */
    size_t entry_room;
    uint32_t *heads;                 /* hash table of lists of entries, newest first: entry + 1, 0 = end */
    unsigned bits;                   /* the table has 2^bits lists; 0 = not allocated yet */
    uint64_t live_of[OVERLAY_SIZES]; /* number of blocks entered in pages of each size */
};

/* Initialize an empty map. Allocates nothing and cannot fail. */
void overlay_init(struct overlay *o);
void overlay_destroy(struct overlay *o);

/* Add a block with span_fits(base, size) and a handle greater than all before. Returns its slot, or NO_SLOT when
 * out of memory. */
uint32_t overlay_add(struct overlay *o, uint64_t base, uint64_t size, uint32_t heap, uint64_t handle);
void overlay_remove(struct overlay *o, uint32_t slot);

/* The newest block that contains the address (a block of size 0 contains none), or that begins there; NO_SLOT if
 * there is none. */
uint32_t overlay_find(const struct overlay *o, uint64_t addr);
uint32_t overlay_at(const struct overlay *o, uint64_t addr);

#endif
