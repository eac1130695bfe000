/* timeline.h - the heap over time in a bounded number of bins, when the length is not known beforehand.
 *
 * Bins cover equal numbers of operations. When all are full, neighbours are merged and each then covers twice
 * as many, so that between half of the bins and all of them are in use at the end. No extreme is lost by
 * merging: the most of two bins is the most of their union.
 *
 * A shard of a trace gets the numbers of operations in the trace and before the shard. Its bins then have the width
 * and the borders that those of the whole trace have at the end. Where a bin crosses a border of shards, each shard
 * has a part of it; timeline_append merges them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef STEVE_KERNELS_BASE_TIMELINE_H
#define STEVE_KERNELS_BASE_TIMELINE_H

#include "steve/kernels/base/sums.h"

/* The heap at one moment. */
struct timeline_now {
    uint64_t operations, time, allocated, live_bytes, live_blocks;
};

struct timeline {
    struct timeline_bin *bins;
    uint32_t capacity, used; /* bins; the last used one may be open */
    uint64_t begin;          /* operations before the first bin */
    uint64_t width;          /* operations in a bin */
    uint64_t next;           /* the operation count at which the open bin ends */
    struct timeline_bin open;
};

bool timeline_init(struct timeline *t, uint32_t capacity);
void timeline_destroy(struct timeline *t);
/* Begin where a shard does, after so many operations of `total`. */
void timeline_begin(struct timeline *t, uint64_t operations, uint64_t total);
/* The width that the bins have after `total` operations. */
uint64_t timeline_width(const struct timeline *t, uint64_t total);
/* Add the next bin of a shard, all of whose bins have t->width. */
void timeline_append(struct timeline *t, const struct timeline_bin *bin);
/* The open bin has its `width` operations (now->operations == t->next): close it and open another. */
void timeline_turn(struct timeline *t, const struct timeline_now *now);
/* Close the open bin if it has any operation. */
void timeline_finish(struct timeline *t, const struct timeline_now *now);

/* The live sums grew: keep the largest. */
static inline void timeline_grew(struct timeline *t, uint64_t live_bytes, uint64_t live_blocks)
{
    if (live_bytes > t->open.live_bytes_most)
        t->open.live_bytes_most = live_bytes;
    if (live_blocks > t->open.live_blocks_most)
        t->open.live_blocks_most = live_blocks;
}

#endif
