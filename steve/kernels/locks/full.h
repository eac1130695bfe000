/* full.h - fine-grained locks from the segment of accesses, in one walk over the operations.
 *
 * Every block has a life counter. It is 0 for a new block, gains `gain` with each operation on the block, and loses
 * `decay` (not below 0) with each operation on any other block. The New and Free of other blocks count, its own do
 * not. A Resize is an operation like an access, and is kept. The block is locked while the counter is above
 * `threshold`; L and U are written before the operation at which that changes. A block that is never freed is never
 * locked. A block that is locked when it is freed is not unlocked first, unless that is requested. In the first
 * Steve, gain is 1, decay 0.5, threshold 0.
 *
 * The counter is a leaky bucket. The leak is index * decay so far; a single number, `end`, is the leak at which the
 * bucket is empty. The *deadline* is the index at which the counter falls to the threshold if no operation on the
 * block follows. Locked blocks are in a ring of lists by deadline. A block whose deadline is beyond the ring, or was
 * postponed, is examined again at most every LOCKFULL_RING operations. An operation adds gain / decay + 1 to one
 * deadline, and each block in the ring uses 1 per operation. So no more than that many blocks are in the ring on
 * average, and the time is linear.
 *
 * Several events can have the same index. All are written, U before L, by handle. With `compat`, only that of the
 * largest handle is written: the first Steve kept the last event for each index, and went through the handles in
 * ascending order.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LOCKS_FULL_H
#define STEVE_KERNELS_LOCKS_FULL_H

#include "memtrace/ops.h"
#include "steve/kernels/base/handle_map.h"
#include "steve/kernels/locks/survivors.h"

#define LOCKFULL_RING 1024

struct lockfull_block {
    uint64_t handle;
    int64_t end;             /* level of the leak at which life is 0 */
    uint32_t previous, next; /* in its list of the ring */
    uint16_t slot;           /* that list */
    bool locked;             /* it is in the ring */
    bool live;
    bool mortal; /* it will be freed */
};

/* In any unit that makes them whole numbers, up to 10^6; gain and decay above 0. */
struct lockfull_rules {
    int64_t gain, decay, threshold;
    bool compat, unlock_before_free;
};

struct lockfull {
    struct lockfull_rules rules;
    struct handle_map live;        /* of an ops file: where a handle's block is */
    struct lockfull_block *blocks; /* by that, or by slot */
    size_t room;
    uint32_t ring[LOCKFULL_RING];
    int64_t index;   /* of the operation at hand */
    uint32_t thread; /* the same */
    uint64_t time;   /* the same */
    uint64_t news;
    struct mortals mortals;
    uint64_t *due; /* handles to unlock here */
    size_t n_due, due_room;
    struct op *out; /* what the last lockfull_feed made */
    uint64_t *at;   /* the number of the operation at or before which each of them happens */
    size_t n_out, out_room, at_room;
    uint64_t locks, unlocks;
    uint64_t unmatched; /* accesses to handles that are not live */
    uint64_t stray; /* events of slots where nothing lives: none in a sound trace; they are no operations */
};

/* unfreed: as of struct unfreed; it stays the caller's. All return false when out of memory. */
bool lockfull_init(struct lockfull *l, const uint64_t *unfreed, size_t n_unfreed,
                   struct lockfull_rules rules);
/* Walk over n operations; the lock operations for them are in out[0 .. n_out - 1]. */
bool lockfull_feed(struct lockfull *l, const struct op *ops, size_t n);
/* The same for events, as if they were translated to operations first (memtrace/ops/source.h): a Resize is an
 * F and an N. One source feeds either by this or by the other. */
bool lockfull_feed_batch(struct lockfull *l, const struct mt_batch *batch);
void lockfull_free(struct lockfull *l);

#endif
