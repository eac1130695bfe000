/* holdings.h - what the blocks of each stack come to over time: held now, at most, and at the heap's peak.
 *
 * One walk over the News, Frees and Resizes, which may stop on its way, or over all events, which counts accesses, too.
 * A block stays its New's stack's when it is resized. What every stack held at the peak is found without a second walk:
 * a stack notes what it holds before that changes, if there was a new peak since it last did. Memory: O(live blocks +
 * stacks that have blocks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_HOLDINGS_H
#define STEVE_KERNELS_LIVES_HOLDINGS_H

#include "memtrace/memtrace.h"
#include "memtrace/reader.h"
#include "steve/kernels/base/keyed_rows.h"

/* Of one stack. Only uint64_t, so that it can be seen as an array with named columns. */
struct holding {
    uint64_t bytes, blocks; /* requested in all; a resized block counts once, its bytes with each size */
    uint64_t held, held_blocks;
    uint64_t most, most_blocks; /* when this stack held most bytes */
    uint64_t peak, peak_blocks; /* when the heap did; of an older peak before holdings_finish */
    uint64_t lifetime;          /* instructions, of all blocks */
    uint64_t bytes_read, bytes_written;
    uint64_t seen; /* number of the heap's peak that `peak` is of */
};

struct holdings_block {
    uint64_t size, blocks; /* in a sample, estimates: memtrace/sample.h. size: 0 of containers */
    uint64_t born;
    double weight;
    uint32_t row; /* of its stack, plus 1; 0 = no block lives here */
};

struct holdings {
    struct holding *rows; /* of the stacks that have blocks, in the order of their first New */
    struct keyed_rows of_stacks;
    struct holdings_block *blocks; /* by slot */
    size_t blocks_room;
    uint64_t time, held; /* now */
    uint64_t peak, peak_time, peaks;
    uint64_t bytes; /* requested until now, in all */
    bool reached;   /* holdings_feed_until stopped at an event */
};

/* Where a walk stops: at the first New, Free or Resize after which one of these is reached. UINT64_MAX = never. */
struct holdings_until {
    uint64_t time, bytes, held;
};

void holdings_init(struct holdings *h);
void holdings_free(struct holdings *h);
/* Feed events up to and with the first New, Free or Resize at which `until` is reached, or all n. Returns their number;
 * SIZE_MAX when out of memory. */
size_t holdings_feed_until(struct holdings *h, const struct mt_event *events, size_t n,
                           const struct holdings_until *until);
/* Take a batch whole, with its accesses; false when out of memory. */
bool holdings_feed(struct holdings *h, const struct mt_batch *batch);
/* The trace ends, at a time that changes nothing if it lies before the last event's. */
void holdings_finish(struct holdings *h, uint64_t time);

#endif
