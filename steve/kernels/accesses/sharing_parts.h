/* sharing_parts.h - memory that several threads access in a trace that is read in parts, each apart from the
 * others.
 *
 * A part does not know which thread used a line, or accessed a block, last before it. So of each line it keeps apart the
 * first run, what else there was of the first episode, and, if that ended in this part, what there was of the
 * last; episodes that begin and end in the part it decides itself. Of a block that crosses one of its borders it
 * tells a piece: by whom it was accessed first, and when it was first seen to be shared. Added in the order of
 * the parts (sharingparts_add) to a struct sharing of the whole trace these give what one reader finds. The
 * clocks of threads begin at 0 in each part; the whole knows what they were before.
 *
 * Told lines, uses and pieces are handed from one process to another as they are. A part has O(live blocks +
 * lines accessed).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_SHARING_PARTS_H
#define STEVE_KERNELS_ACCESSES_SHARING_PARTS_H

#include "steve/kernels/accesses/sharing.h"

/* A line in a part. Its uses follow those of the lines before: the first run; those of the first episode that
 * count; its last run; the last run of the last episode; those of it that count. */
struct sharing_told {
    uint64_t number;
    struct sharing_place first_place, place; /* of the first and the last access */
    struct sharing_first first;              /* of the last episode, if the first ended here */
    uint32_t head_counted, counted;          /* so many uses */
    bool head_run, ended, run;               /* is there a last run? did the first episode end here? */
};

struct sharing_piece {
    struct sharing_block block;
    uint32_t slot;
    bool freed; /* it ended in this part; else it lives on */
};

/* What a part reports. */
struct sharing_part {
    const struct sharing_told *told;
    size_t n_told;
    const struct sharing_use *uses;
    const struct sharing_piece *pieces;
    size_t n_pieces;
    const uint64_t *clocks; /* by thread */
    size_t n_clocks;
    uint64_t changes;
    uint16_t first_thread, thread;
};

/* All return false when out of memory. A block lives where the part begins, made by a stack. */
bool sharingparts_enter(struct sharing *s, const struct mt_live_block *live, uint32_t stack);
/* The part is over: pieces are complete. */
bool sharingparts_finish(struct sharing *s);
/* Into told[lines.map.live] and uses[], for at most lines.n_uses; how many of these there are. */
size_t sharingparts_tell(const struct sharing *s, struct sharing_told *told, struct sharing_use *uses);

/* For sharing.c: a block was freed. */
bool sharingparts_end(struct sharing *s, struct sharing_block *b);

/* Add what the next part reports; its rows, and what it found, are added by the caller. */
bool sharingparts_add(struct sharing *whole, const struct sharing_part *part);

#endif
