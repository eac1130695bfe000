/* profile.h - what the report shows of a heap and no other analysis has: sums by stack and heap, and the heap over
 * time.
 *
 * A walk feeds it the events, of which it needs New, Free, Resize and the numbers of accesses, and the lives of the
 * blocks (steve/kernels/lives/lives.h), which have the accesses to each block. A resized block belongs to the stack of
 * its last Resize, as in the summary.
 *
 * All results are sums of bounded size. Memory is O(most live blocks + stacks with blocks + heaps + bins), and 4 bytes
 * for each other stack.
 *
 * An operation is an event of the kinds New to Modify; operations are numbered from 0. A read is a Load or Modify, a
 * write a Store or Modify.
 *
 * In a damaged trace, the Free of a block may be missing. Such a block is live until another block is made in its slot.
 *
 * A shard of a trace begins with the blocks that live there (profile_enter). Its tallies count the blocks that are made
 * in it, and differences to its beginning. The size of the heap at its beginning is known, so a peak of the shard is
 * the peak of the trace if it is higher than all before. profile_merge adds the shards, from the first to the last.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef STEVE_KERNELS_LIVES_PROFILE_H
#define STEVE_KERNELS_LIVES_PROFILE_H

#include "steve/kernels/base/live_blocks.h"
#include "steve/kernels/base/segment_sums.h"
#include "steve/kernels/base/timeline.h"

#define PROFILE_SIZES 64     /* bin k: sizes 2^k to 2^(k+1)-1; size 0 is in bin 0 */
#define PROFILE_LIFETIMES 65 /* bin k: lifetimes 2^k to 2^(k+1)-1 operations */
#define PROFILE_FOREVER 64   /* the last bin: never freed */
#define PROFILE_MARKS 100    /* number of marks that are kept */

struct profile_mark {
    uint64_t operation, time, string;
};

/* Numbers of a shard. Numbers of operations, times and the heap are those of the trace; the other totals are those of
 * the shard. */
struct profile_shard {
    struct profile_totals totals;
    uint64_t width;         /* of a bin of the timeline */
    uint64_t risen;         /* did the heap become larger than at the beginning of the shard? */
    uint64_t ended_at_peak; /* number of blocks made before the shard that had ended at its peak */
};

/* Tallies with their ids. known: the number of ids that are defined. variances: of the first rows, none if the trace is no
 * sample, and not in shards. */
struct profile_rows {
    const uint32_t *ids;
    const struct profile_tally *rows;
    size_t n;
    uint32_t known;
    const struct profile_tally_variances *variances;
    size_t n_variances;
};

/* The profile of a shard. */
struct profile_partial {
    const struct profile_shard *shard;
    struct profile_rows stacks, heaps;
    const struct timeline_bin *bins;
    size_t n_bins;
    const struct profile_mark *marks;
    const uint64_t *map_blocks, *map_bytes;
    const uint32_t *ended; /* of struct live_blocks */
    size_t n_ended;
    const struct live_at *list;
    size_t n_list;
};

struct profile;

/* `bins` (2 or more, even) bounds the timeline. NULL when out of memory. */
struct profile *profile_new(uint32_t bins);
void profile_free(struct profile *p);

/* Begin at a shard, after so many operations of `total`. */
void profile_begin_shard(struct profile *p, uint64_t operations, uint64_t total);
/* Enter a block that lives where the shard begins. False when out of memory. */
bool profile_enter(struct profile *p, const struct mt_live_block *live);
/* Feed the next batch, in time proportional to its steps. stacks, heaps: how many of each the reader has defined; an id
 * beyond counts as 0. False: out of memory, and the profile can only be freed. */
bool profile_feed(struct profile *p, const struct mt_batch *batch, uint32_t stacks, uint32_t heaps);
/* Add the lives of blocks whose ends were fed, or that live at the end. False when out of memory. */
bool profile_add_lives(struct profile *p, const struct life *lives, size_t n);
/* All events and lives, or all shards, were added: close the timeline. */
void profile_finish(struct profile *p);
/* Instead of that, in a shard. Fills in `shard`. False when out of memory. */
bool profile_finish_shard(struct profile *p, struct profile_shard *shard);
/* Add the next shard to the profile of the shards before it. False when out of memory. */
bool profile_merge(struct profile *whole, const struct profile_partial *shard);
/* After all shards were added: did these have the right width of bins, and do the bins cover all operations? They do not if
 * the number of operations was not the one that the shards were given. */
bool profile_fits(const struct profile *p);

/* Results, valid after profile_finish or profile_finish_shard until profile_free. Arrays belong to the profile. */
const struct profile_totals *profile_totals(const struct profile *p);
struct profile_rows
profile_stacks(const struct profile *p); /* those that have any block or life; in any order */
struct profile_rows profile_heaps(const struct profile *p);
const struct timeline_bin *profile_timeline(const struct profile *p, size_t *n);
const struct profile_mark *profile_marks(const struct profile *p, size_t *n);
/* [size bin][lifetime bin]: number of blocks, and their bytes; PROFILE_SIZES x PROFILE_LIFETIMES, row by row.
 */
const uint64_t *profile_map_blocks(const struct profile *p);
const uint64_t *profile_map_bytes(const struct profile *p);
/* Of a shard, the blocks that cross its borders. */
const struct live_blocks *profile_blocks(const struct profile *p);

#endif
