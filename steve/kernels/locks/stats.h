/* stats.h - what locks mean for a compacting allocator: how much is locked, for how long, what may move.
 *
 * It is fed the operations of a lockops file (N, F, R, L, U), each with the number of the operation at or before
 * which it happens. The results are samples over time at equal distances (when there are too many, every other one
 * is dropped and the distance doubled), means weighted by time, and a histogram by powers of two of how long locks
 * are held. A lock is held from L to U or F, or to the end. Blocks that are not locked can be moved.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LOCKS_STATS_H
#define STEVE_KERNELS_LOCKS_STATS_H

#include "memtrace/ops.h"
#include "steve/kernels/base/handle_map.h"

#define LOCKSTATS_SAMPLES 256
#define LOCKSTATS_BINS 65

/* All uint64_t: seen as an array with named columns. */
struct lockstats_sample {
    uint64_t operation; /* the state is that after it */
    uint64_t live_blocks, live_bytes, locked_blocks, locked_bytes;
};

struct lockstats_block {
    uint64_t size, since;
    bool locked, ever;
};

struct lockstats {
    struct handle_map live;
    struct lockstats_block *blocks;
    size_t room;
    struct lockstats_sample state; /* now */
    struct lockstats_sample samples[LOCKSTATS_SAMPLES];
    size_t n_samples;
    uint64_t distance;
    uint64_t fed;   /* operations */
    double sums[4]; /* of the fields of state, in their order, times operations */
    uint64_t blocks_made, blocks_locked, locks, unlocks, died_locked;
    uint64_t holds[LOCKSTATS_BINS]; /* 0; then 2^(i-1) ... 2^i - 1 operations */
    uint64_t held, longest;         /* operations, of all locks and of one */
};

bool lockstats_init(struct lockstats *s); /* false: out of memory; so below */
void lockstats_free(struct lockstats *s);
/* at: numbers of operations, that never go down; NULL = each operation is the next. */
bool lockstats_feed(struct lockstats *s, const struct op *ops, const uint64_t *at, size_t n);
/* There were `end` operations. */
void lockstats_finish(struct lockstats *s, uint64_t end);

#endif
