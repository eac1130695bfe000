/* walk.h - the events of the blocks that were chosen, and of no others.
 *
 * An analysis of accesses with a filter walks over the trace twice: once over the lives of blocks, to choose
 * them, then over the events. Here the second walk hides what was not chosen: such an event keeps its place,
 * so that operations can be counted, but has the kind WALK_OTHER. Blocks made before the first event fed are
 * not chosen. Without a selection and from the beginning of a trace nothing has to be hidden, and nothing is
 * copied. Memory: O(live blocks + a batch).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_WALK_H
#define STEVE_KERNELS_BASE_WALK_H

#include "memtrace/memtrace.h"

#define WALK_OTHER 200 /* a kind: an operation on a block that does not count */

struct walk {
    const uint8_t *selected; /* a bit for each handle; NULL = all blocks */
    uint64_t n_selected;
    uint64_t since; /* blocks of smaller handles are not chosen */
    uint8_t *mine;  /* by slot: does a chosen block live there? */
    size_t room;
    struct mt_event *copy;
    size_t copy_room;
};

/* selected: as in steve/kernels/lives/lives.h; stays the caller's. */
void walk_init(struct walk *w, const uint8_t *selected, uint64_t n_selected);
void walk_free(struct walk *w);
/* In a part of a trace: a block lives where it begins. False when out of memory. */
bool walk_enter(struct walk *w, const struct mt_live_block *live);
/* The n events with those of other blocks hidden: an array good until the next call; NULL: out of memory. */
const struct mt_event *walk_filter(struct walk *w, const struct mt_event *events, size_t n);

/* Take what was hidden out of the n events that walk_filter gave last, with what is not of a chosen block
 * besides: its TYPE and REACH, and with a selection BADFREE, which is of no block. How many are left, in the same
 * array. */
size_t walk_pack(struct walk *w, size_t n);

/* With a selection: hide of them what is of no block, too. */
void walk_hide_blockless(struct walk *w, size_t n);

static inline bool walk_is_access(const struct mt_event *e)
{
    return e->kind >= MT_LOAD && e->kind <= MT_MODIFY;
}

/* Is it an operation: a New, Free, Resize or access, of whichever block? */
static inline bool walk_is_operation(const struct mt_event *e)
{
    return e->kind <= MT_MODIFY || e->kind == WALK_OTHER;
}

#endif
