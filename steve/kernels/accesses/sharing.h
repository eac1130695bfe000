/* sharing.h - memory that several threads access, block by block and line by line.
 *
 * Counted for the stack that made the accessed block: its blocks, those that several threads accessed, and
 * accesses. Of each line of 64 bytes sharing_lines.h keeps what each thread does to it, and decides whether it
 * is falsely shared.
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
 * Memory O(live blocks + lines accessed + stacks), and more for each line that several threads access.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_SHARING_H
#define STEVE_KERNELS_ACCESSES_SHARING_H

#include "memtrace/memtrace.h"
#include "steve/kernels/accesses/sharing_lines.h"
#include "steve/kernels/base/handle_map.h"
#include "steve/kernels/base/sums.h"

struct sharing_block {
    uint64_t size;
    uint32_t stack;
    uint16_t thread; /* that accessed it first; 0 = none yet. Of an earlier one: first in this shard */
    bool live, shared;
    bool earlier;                     /* made before this shard */
    uint64_t first_size, shared_size; /* its bytes when it was accessed first in it, and when shared there */
};

struct sharing {
    struct sharing_row *rows;
    size_t rows_room;
    struct sharing_block *blocks; /* by slot */
    size_t blocks_room;
    struct sharinglines lines;
    bool part;                    /* set by the caller before anything is fed */
    struct sharing_piece *pieces; /* of a part */
    size_t n_pieces, pieces_room;
};

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

bool sharing_init(struct sharing *s); /* false: out of memory; so below */
void sharing_free(struct sharing *s);
bool sharing_feed(struct sharing *s, const struct mt_event *events, size_t n);
/* All was fed, or added: decide on all lines. */
bool sharing_finish(struct sharing *s);

/* Enter a block that lives at the beginning of the shard; stack: of its New. */
bool sharing_shard_enter(struct sharing *s, const struct mt_live_block *live, uint32_t stack);
/* At the end of the shard: complete the pieces. */
bool sharing_shard_finish(struct sharing *s);
/* Write the lines to reported[lines.map.live] and their uses to uses[], which has room for lines.n_uses. Returns the
 * number of uses. */
size_t sharing_shard_report(const struct sharing *s, struct sharing_reported *reported,
                            struct sharing_use *uses);

/* Add the report of the next shard. The caller adds its rows and the lines that it found. */
bool sharing_merge(struct sharing *whole, const struct sharing_part *part);

#endif
