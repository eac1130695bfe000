/* summary.h - totals of a trace: events, bytes, blocks, and where blocks were made.
 *
 * Bytes are those that the program requested. In bytes, a Resize counts as a free of the old size and an allocation of
 * the new one; the peak never includes both. In blocks, it does not count. Sites are allocation stacks; a resized block
 * belongs to the stack of its last Resize. What each stack had at the peak is found without a second reading: a row notes
 * what it has before that changes, if there was a new peak since it last did. Memory: O(live blocks + stacks that make
 * blocks), and 4 bytes for each other stack.
 *
 * A shard of a trace begins with the blocks that live there, which are entered. Its totals of live blocks and bytes,
 * and their peaks, are differences to the beginning of the shard. summary_merge adds the shards of a trace, from the
 * first to the last.
 *
 * In a sample of the blocks (memtrace/sample.h), the numbers of heap events, accesses, blocks and bytes are estimates.
 *
 * In a damaged trace, the New or the Free of a block may be missing. A block without New is never counted as live. A
 * block without Free is live until another block is made in its slot.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_TOTALS_SUMMARY_H
#define STEVE_KERNELS_TOTALS_SUMMARY_H

#include "steve/kernels/base/keyed_rows.h"
#include "steve/kernels/base/live_blocks.h"
#include "steve/kernels/base/segment_sums.h"
#include "steve/kernels/base/sums.h"

/* The variances of totals that are estimates. */
struct summary_variances {
    double allocated, freed, news, frees, live_bytes, live_blocks, peak_bytes, peak_blocks;
    double resizes, loads, stores, modifies, read, written;
};

struct summary {
    struct summary_totals totals;
    struct summary_variances variances; /* not in shards */
    struct live_blocks blocks;
    struct keyed_rows of_stacks; /* the rows by stack id; a stack has one when blocks are made there */
    struct summary_stack *stacks;
    uint64_t epoch;     /* how often the heap became larger than ever */
    size_t known;       /* stacks; another id counts as stack 0 */
    struct words words; /* with the executions that are not yet counted in totals.events */
    bool sampled;       /* blocks have weights */
    uint32_t noted;     /* the thread, plus 1, of the latest event */
    struct access_sums
        *uses; /* in a sample, by slot: accesses to the live block, not yet counted in the totals */
    size_t n_uses;
};

/* The summary of a shard. */
struct summary_partial {
    const struct summary_totals *totals;
    const struct summary_stack *stacks;
    const uint32_t *of_rows; /* their stacks */
    size_t n_stacks;
    const uint32_t *ended; /* of struct live_blocks */
    size_t n_ended;
    const struct live_at *list;
    size_t n_list;
};

void summary_init(struct summary *s);
/* Enter a block that lives where the shard begins. False when out of memory. */
bool summary_enter(struct summary *s, const struct mt_live_block *live);
/* Feed the next batch, in time proportional to the words of its segments; after the last one, summary_finish must be
 * called. stacks: number of stacks that the reader knows. False when out of memory. */
bool summary_feed(struct summary *s, const struct mt_batch *batch, uint32_t stacks);
void summary_finish(struct summary *s);
/* Add the next shard of a trace to the summary of the shards before it. False when out of memory. */
bool summary_merge(struct summary *whole, const struct summary_partial *shard);
unsigned summary_threads(const struct summary *s);
void summary_free(struct summary *s);

#endif
