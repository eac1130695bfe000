/* sharing_shards.h - sharing of memory between threads in shards of a trace.
 *
 * A shard does not know which thread used a line or accessed a block last before it. So it reports for each line:
 * the first run, the rest of the first episode and, if that ended in the shard, the last episode. Episodes that
 * begin and end in the shard are decided there. For a block that crosses a border it reports a piece: the thread
 * that accessed the block first, and when it was first found to be shared. Added in the order of the shards
 * (sharing_merge) to a struct sharing of the whole trace, these give the result of one reader. The clocks of
 * threads begin at 0 in each shard; the whole adds their values before it.
 *
 * Reported lines, uses and pieces are sent between processes as bytes. A shard has O(live blocks + lines accessed).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_SHARING_SHARDS_H
#define STEVE_KERNELS_ACCESSES_SHARING_SHARDS_H

#include "steve/kernels/accesses/sharing.h"

/* A line in a shard. Its uses follow those of the lines before, in this order: the first run; the counted ones of
 * the first episode; its last run; the last run of the last episode; the counted ones of the last episode. */
struct sharing_reported {
    uint64_t number;
    struct sharing_place first_place, place; /* of the first and the last access */
    struct sharing_first first;              /* of the last episode, if the first ended here */
    uint32_t head_counted, counted;          /* numbers of counted uses */
    bool head_run, ended, run;               /* is there a last run? did the first episode end here? */
};

struct sharing_piece {
    struct sharing_block block;
    uint32_t slot;
    bool freed; /* it ended in this shard; else it lives on */
};

/* The report of a shard. */
struct sharing_part {
    const struct sharing_reported *reported;
    size_t n_reported;
    const struct sharing_use *uses;
    const struct sharing_piece *pieces;
    size_t n_pieces;
    const uint64_t *clocks; /* by thread */
    size_t n_clocks;
    uint64_t changes;
    uint16_t first_thread, thread;
};

/* All return false when out of memory. Enter a block that lives at the beginning of the shard; stack: of its New. */
bool sharing_shard_enter(struct sharing *s, const struct mt_live_block *live, uint32_t stack);
/* At the end of the shard: complete the pieces. */
bool sharing_shard_finish(struct sharing *s);
/* Write the lines to reported[lines.map.live] and their uses to uses[], which has room for lines.n_uses. Returns the
 * number of uses. */
size_t sharing_shard_report(const struct sharing *s, struct sharing_reported *reported,
                            struct sharing_use *uses);

/* For sharing.c: a block was freed. */
bool sharing_shard_end(struct sharing *s, struct sharing_block *b);

/* Add the report of the next shard. The caller adds its rows and the lines that it found. */
bool sharing_merge(struct sharing *whole, const struct sharing_part *part);

#endif
