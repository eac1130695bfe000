/* walk.h - the events of chosen blocks.
 *
 * An analysis of accesses with a filter reads the trace twice: first the lives of blocks, to choose some, then the
 * events. This is the second walk. It hides the events of other blocks: such an event keeps its place, so that
 * operations can be counted, but gets the kind WALK_OTHER. Blocks that were made before the first event are not
 * chosen, unless they are entered. If all blocks are chosen, nothing is copied. Memory: O(live blocks + a batch).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_WALK_H
#define STEVE_KERNELS_BASE_WALK_H

#include "memtrace/memtrace.h"

#define WALK_OTHER 200 /* a kind: an operation on a block that does not count */

struct walk {
    const uint8_t *selected; /* a bit for each handle; NULL = all blocks */
    uint64_t n_selected;
    uint64_t since; /* blocks with smaller handles are not chosen */
    uint8_t *mine;  /* by slot: does a chosen block live there? */
    size_t room;
    struct mt_event *copy;
    size_t copy_room;
};

/* selected: as in steve/kernels/lives/lives.h; the caller owns it. */
void walk_init(struct walk *w, const uint8_t *selected, uint64_t n_selected);
void walk_free(struct walk *w);
/* Enter a block that lives at the beginning of a shard. False when out of memory. */
bool walk_enter(struct walk *w, const struct mt_live_block *live);
/* The n events, with those of other blocks hidden, in an array that is valid until the next call. NULL: out of
 * memory. */
const struct mt_event *walk_filter(struct walk *w, const struct mt_event *events, size_t n);

/* Remove the hidden ones from the n events that walk_filter returned last. Also removes TYPE and REACH of blocks
 * that are not chosen and, if there is a selection, BADFREE. Returns how many are left, in the same array. */
size_t walk_pack(struct walk *w, size_t n);

/* If there is a selection, also hide those that belong to no block. */
void walk_hide_blockless(struct walk *w, size_t n);

static inline bool walk_is_access(const struct mt_event *e)
{
    return e->kind >= MT_LOAD && e->kind <= MT_MODIFY;
}

/* Is it a New, Free, Resize or access of any block? */
static inline bool walk_is_operation(const struct mt_event *e)
{
    return e->kind <= MT_MODIFY || e->kind == WALK_OTHER;
}

#endif
