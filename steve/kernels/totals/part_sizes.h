/* part_sizes.h - what has to be known of a part of a trace before the parts after it can be translated alone.
 *
 * How many operations the part makes, how many handles it gives out, and which of them the slots have at its
 * end. One walk that looks at nothing else, so the accesses may be passed over (mt_pass_accesses) and added
 * as operations by their number; it needs to know nothing of what comes before the part. Memory: O(live
 * blocks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_TOTALS_PART_SIZES_H
#define STEVE_KERNELS_TOTALS_PART_SIZES_H

#include "memtrace/memtrace.h"

#include <stdbool.h>

/* What a slot holds at the end: */
enum {
    SURVEY_SAME,
    SURVEY_NONE,
    SURVEY_MADE
}; /* what it held before; nothing; handle number k + SURVEY_MADE */

struct survey {
    uint64_t operations;
    uint64_t handles; /* given out in this part */
    uint64_t *slots;
    size_t n_slots;
    bool resizes; /* a Resize is one operation and gives out no handle; else a Free and a New */
};

void survey_init(struct survey *s, bool resizes);
void survey_free(struct survey *s);
bool survey_feed(struct survey *s, const struct mt_event *events, size_t n); /* false: out of memory */

#endif
