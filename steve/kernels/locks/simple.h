/* simple.h - coarse locks: a block is locked for its whole life or never.
 *
 * The macro lifetime of a block is the share of all accesses of the program that fall within its life. Blocks
 * of less than a threshold, normally a half, are locked right after their N. The share is known at the end
 * only, so there are two walks: the first finds the blocks that stay unlocked (there can be few of them if
 * each lives half the program long), the second writes. Of the blocks freed so far only those are kept that
 * span at least that share of what has been seen, so that with a half memory is O(live blocks x log
 * accesses).
 *
 * compat: as in the first Steve a block without accesses of its own counts as having one.
 * A program without any access locks nothing.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LOCKS_SIMPLE_H
#define STEVE_KERNELS_LOCKS_SIMPLE_H

#include "memtrace/ops.h"
#include "steve/kernels/base/handle_map.h"

struct locksimple_life {
    uint64_t ordinal; /* how many N came before its own */
    uint64_t span;    /* accesses within its life, by whomever; while it lives: accesses before its life */
    bool touched;     /* by an access of its own */
};

struct locksimple {
    struct handle_map live;
    struct locksimple_life *lives; /* by index of the live block */
    size_t room;
    /* After locksimple_finish: the blocks that stay unlocked, by ordinal. */
    struct locksimple_life *long_ones;
    size_t n_long, long_room;
    uint64_t news, accesses, unmatched;
    uint64_t threshold; /* in thousandths of all accesses */
    bool compat;
};

/* The first walk. All return false when out of memory. */
bool locksimple_init(struct locksimple *s, uint64_t threshold, bool compat);
bool locksimple_feed(struct locksimple *s, const struct op *ops, size_t n);
bool locksimple_finish(struct locksimple *s);
void locksimple_free(struct locksimple *s);

/* The second walk: turn operations into lock operations. */
struct locksimple_writer {
    const struct locksimple *plan;
    size_t next_long;
    uint64_t news, locks, index; /* index: operations walked over */
    bool unlock_before_free;
    struct handle_map locked; /* live blocks that are locked, kept for unlock_before_free only */
    bool out_of_memory;
};

bool locksimple_writer_init(struct locksimple_writer *w, const struct locksimple *plan,
                            bool unlock_before_free);
void locksimple_writer_free(struct locksimple_writer *w);
/* out and at have room for 2 * n; how many it became. at: the number of the operation that each comes of.
 * Afterwards see out_of_memory. */
size_t locksimple_write(struct locksimple_writer *w, const struct op *ops, size_t n, struct op *out,
                        uint64_t *at);

#endif
