/* lifetimes.h - for every block, how many accesses it and the others had while it lived.
 *
 * own: accesses to the block; other: accesses to other blocks between its N and its F, or the end. The result
 * has one element for each block of the trace, since that is what it is for; nothing else grows with the
 * trace. Accesses to handles that are not live are not counted as anybody's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_TOTALS_LIFETIMES_H
#define STEVE_KERNELS_TOTALS_LIFETIMES_H

#include "memtrace/ops.h"
#include "steve/kernels/base/handle_map.h"

struct lifetime {
    uint64_t handle, own, other;
};

struct lifetimes {
    struct handle_map live;
    uint64_t *ordinal; /* by index of the live block: its place in blocks */
    size_t room;
    struct lifetime *blocks; /* in order of the N; `other` of a live block holds the accesses before it */
    size_t n, blocks_room;
    uint64_t accesses, unmatched;
};

/* All return false when out of memory. */
bool lifetimes_init(struct lifetimes *l);
bool lifetimes_feed(struct lifetimes *l, const struct op *ops, size_t n);
void lifetimes_finish(struct lifetimes *l);
void lifetimes_free(struct lifetimes *l);

#endif
