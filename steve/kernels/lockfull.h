/* lockfull.h - fine-grained locks from the pattern of accesses, in one walk over the operations.
 *
 * Every block has a life counter: 0 when it is new, 1 more for each operation on the block, 0.5 less (not
 * below 0) for each operation on any other; New and Free of others count, its own do not. It is locked while
 * the counter is above 0; L and U stand before the operation at which that changes. A block that is never
 * freed is never locked, and a block that dies locked is not unlocked first.
 *
 * Counted in halves the counter is a leaky bucket, so that one number says all: the *deadline*, the index of
 * the operation at which life reaches 0 if the block is left alone. Blocks wait in a ring of lists by
 * deadline. One whose deadline is beyond the ring, or was put off meanwhile, is looked at again at most every
 * LOCKFULL_RING operations; since an operation adds 3 to one deadline and every waiting block uses up 1 per
 * operation, at most three blocks wait per operation on average, and the whole is linear.
 *
 * Several events may fall on one index. All are given, U before L, by handle; with `compat` only that of the
 * largest handle: the first Steve kept one event for each index, the last one it met, and met the handles in
 * ascending order.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_LOCKFULL_H
#define STEVE_LOCKFULL_H

#include "memtrace/ops.h"
#include "steve/kernels/livemap.h"

#define LOCKFULL_RING 1024

struct lockfull_block {
    uint64_t handle;
    int64_t deadline;
    uint32_t previous, next; /* in its list of the ring */
    uint16_t slot;           /* that list */
    bool locked;             /* it stands in the ring */
    bool mortal;             /* it will be freed */
};

struct lockfull {
    struct livemap live;
    struct lockfull_block *blocks;
    size_t room;
    uint32_t ring[LOCKFULL_RING];
    int64_t index; /* of the operation at hand */
    uint64_t news;
    const uint64_t *unfreed; /* ordinals still to come, ascending */
    size_t n_unfreed;
    uint64_t *due; /* handles to unlock here */
    size_t n_due, due_room;
    struct op *out; /* what the last lockfull_feed made */
    size_t n_out, out_room;
    bool compat;
    uint64_t locks, unlocks, unmatched;
};

/* unfreed: as of struct unfreed; it stays the caller's. All return false when out of memory. */
bool lockfull_init(struct lockfull *l, const uint64_t *unfreed, size_t n_unfreed, bool compat);
/* Walk over n operations; the lock operations for them are in out[0 .. n_out - 1]. */
bool lockfull_feed(struct lockfull *l, const struct op *ops, size_t n);
void lockfull_free(struct lockfull *l);

#endif
