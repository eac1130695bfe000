/* slot_owners.h - which stack made the block that each slot holds where a part of a trace ends.
 *
 * One walk that looks at nothing else, so the accesses may be passed over (mt_pass_accesses); it needs to
 * know nothing of what comes before the part: see steve/kernels/totals/part_sizes.h. Memory: O(live blocks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_SLOT_OWNERS_H
#define STEVE_KERNELS_LIVES_SLOT_OWNERS_H

#include "memtrace/memtrace.h"

/* What a slot holds at the end: */
enum {
    OWNERS_SAME, /* what it held before */
    OWNERS_NONE,
    OWNERS_MADE /* a block made by stack number k - OWNERS_MADE */
};

struct owners {
    uint32_t *slots;
    size_t n_slots;
};

void owners_init(struct owners *o);
void owners_free(struct owners *o);
bool owners_feed(struct owners *o, const struct mt_event *events, size_t n); /* false: out of memory */

#endif
