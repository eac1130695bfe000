/* summary.h - totals of a trace: events, bytes, blocks, and where blocks were made.
 *
 * Byte counts are of what the program asked for. A Resize counts as a free of the old and an allocation of
 * the new size in the bytes, not in the blocks; the peak does not see both at once. Sites are allocation
 * stacks; a resized block belongs to the stack that resized it. Memory: O(live blocks + stacks).
 *
 * The walk may begin in the middle of a trace. Blocks that lived before are entered first; those that end are
 * listed by slot, and all that is said of live blocks and bytes is relative to the beginning. steve.parts
 * joins such summaries.
 *
 * Of a trace that is damaged, the New of a block may be missing, or its Free: the first is not counted among
 * the live ones, the other no longer when its slot is taken.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_TOTALS_SUMMARY_H
#define STEVE_KERNELS_TOTALS_SUMMARY_H

#include "steve/kernels/base/segment_sums.h"

struct mt_live_block;

/* One allocation stack. */
struct summary_stack {
    uint64_t news, resizes;           /* blocks made, blocks resized, here */
    uint64_t bytes;                   /* asked for by those */
    uint64_t live_blocks, live_bytes; /* made here and live now; at the end: never freed */
};

enum summary_state { SUMMARY_NONE, SUMMARY_BEFORE, SUMMARY_LIVE };

struct summary_block {
    uint64_t size;
    uint32_t stack, state; /* state: SUMMARY_BEFORE = it lived at the beginning, and its stack is not known */
};

struct summary {
    uint64_t events[MT_KINDS];
    uint64_t accessed[MT_KINDS]; /* bytes, by kind of access */
    uint64_t allocated, freed;   /* bytes */
    int64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
    uint64_t lost;                /* events missing where the trace says so */
    uint64_t last_event;          /* guest instructions at the last event */
    struct summary_block *blocks; /* by slot */
    size_t room;
    uint32_t *ended; /* slots whose block lived before the beginning and ended */
    size_t n_ended, ended_room;
    struct summary_stack *stacks; /* by stack id */
    size_t n_stacks;
    uint64_t threads[1024]; /* bit set of thread numbers */
    struct words words;     /* with how often each ran and is not yet among the events */
};

void summary_init(struct summary *s);
/* A block lives where the walk begins. False when out of memory. */
bool summary_enter(struct summary *s, const struct mt_live_block *live);
/* stacks: how many the reader knows. False when out of memory. */
bool summary_feed(struct summary *s, const struct mt_event *events, size_t n, uint32_t stacks);
/* The same for a batch: nothing is done for an access, little for a word. summary_finish must follow at the end.
 */
bool summary_feed_batch(struct summary *s, const struct mt_batch *batch, uint32_t stacks);
void summary_finish(struct summary *s);
unsigned summary_threads(const struct summary *s);
void summary_free(struct summary *s);

#endif
