/* survey.h - what a shard of a trace changes that the shards after it need to know.
 *
 * It counts operations and handles, and finds for each slot the handle of its block at the end of the shard and the
 * stack that made the block. Accesses may be skipped (mt_pass_accesses), and their number added to the operations. The
 * survey of a shard needs nothing of the shards before. Memory: O(live blocks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_SURVEY_H
#define STEVE_KERNELS_BASE_SURVEY_H

#include "memtrace/memtrace.h"

#include <stdbool.h>

/* What to find; flags. */
enum survey_wanted {
    SURVEY_HANDLES = 1,
    SURVEY_OWNERS = 2,
    SURVEY_SPLIT = 4, /* a Resize counts as a Free and a New with the next handle; else it is one operation */
};

/* What a slot holds at the end. */
enum survey_slot {
    SURVEY_SAME, /* the block that it held at the beginning */
    SURVEY_NONE,
    SURVEY_MADE /* handle, or stack, number k - SURVEY_MADE; handles are counted from the beginning of the shard */
};

struct survey {
    unsigned wanted;
    uint64_t operations;
    uint64_t handles;    /* number of blocks that the shard makes */
    uint64_t *handle_of; /* by slot, see enum survey_slot */
    uint32_t *owner_of;  /* by slot, likewise: the stack of the block's New */
    size_t n_handle_of, n_owner_of;
};

void survey_init(struct survey *s, unsigned wanted);
void survey_free(struct survey *s);
bool survey_feed(struct survey *s, const struct mt_event *events, size_t n); /* false: out of memory */

#endif
