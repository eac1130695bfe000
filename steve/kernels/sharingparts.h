/* sharingparts.h - memory that several threads access in a trace that is read in parts, each apart from the
 * others.
 *
 * A part does not know who had a line, or accessed a block, last before it. So it puts down of each line the
 * first access, what its thread did to the line up to where another took it (the first *run*), that other's
 * access, and how it left the line; all transfers in between it counts itself. Of a block that crosses one of
 * its borders it tells a piece: by whom it was touched first and last, and when it was first seen to be
 * shared. Added in the order of the parts (sharingparts_add_*) to a struct sharing of the whole trace these
 * give the transfers and shared blocks that one reader counts.
 *
 * Runs and pieces are handed from one process to another as they are. A part has O(live blocks + lines
 * accessed).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_SHARINGPARTS_H
#define STEVE_SHARINGPARTS_H

#include "steve/kernels/sharing.h"

/* Bytes of a line are accessed: a bit for each. */
struct sharing_access {
    uint64_t bytes;
    uint16_t thread;
    bool writes;
};

struct sharing_run {
    uint64_t number; /* of the line */
    struct sharing_access first, next;
    uint32_t first_stack, next_stack; /* that made the accessed blocks */
    struct sharing_line run, left;    /* what the first thread did to it; how the part left it */
    bool ended;                       /* there is a next */
};

struct sharing_piece {
    struct sharing_block block;
    uint32_t slot;
    bool freed; /* it ended in this part; else it lives on */
};

/* All return false when out of memory. A block lives where the part begins, made by a stack. */
bool sharingparts_enter(struct sharing *s, const struct mt_live_block *live, uint32_t stack);
/* The part is over: runs (map.live of them) and pieces are complete. */
bool sharingparts_finish(struct sharing *s);

/* For sharing.c: an access to the line with that index and number; a block was freed. */
bool sharingparts_touch(struct sharing *s, uint32_t index, uint64_t number, uint32_t stack,
                        const struct sharing_access *a);
bool sharingparts_end(struct sharing *s, struct sharing_block *b);

/* Add what the next part told; its rows are added by the caller. */
bool sharingparts_add_runs(struct sharing *whole, const struct sharing_run *runs, size_t n);
bool sharingparts_add_pieces(struct sharing *whole, const struct sharing_piece *pieces, size_t n);

#endif
