/* survivors.h - which blocks are never freed; and, by the list of these, which will be, and whether that list was right.
 *
 * Lock lifetimes are defined for blocks that are freed; whether a block will be is known at the end only.
 * This first walk over the operations finds the others. A block is named by its ordinal: how many N came
 * before its own, which is its handle in ops files made here and unambiguous in any other. Of a trace a
 * Resize counts as a Free and a New. Memory: O(live blocks).
 *
 * The list (ordinals of News, ascending) is of an earlier walk over the same operations, or of a file that
 * says it; such a file may be wrong, which shows once all operations have been met.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LOCKS_SURVIVORS_H
#define STEVE_KERNELS_LOCKS_SURVIVORS_H

#include "memtrace/memtrace.h"
#include "memtrace/ops.h"
#include "steve/kernels/base/handle_map.h"

struct unfreed {
    struct handle_map live;
    uint64_t *ordinal; /* by index of the live block */
    size_t room;
    uint64_t *by_slot; /* of a trace: the ordinal of the block that lives there, plus 1; 0 = none */
    size_t slots;
    uint64_t news;
    uint64_t *list; /* after unfreed_finish: the ordinals, ascending */
    size_t n, list_room;
};

/* All return false when out of memory. */
bool unfreed_init(struct unfreed *u);
bool unfreed_feed(struct unfreed *u, const struct op *ops, size_t n);
/* The same of a trace, whose accesses may be left out; not for both. */
bool unfreed_feed_events(struct unfreed *u, const struct mt_event *events, size_t n);
bool unfreed_finish(struct unfreed *u);
void unfreed_free(struct unfreed *u);

struct mortals {
    const uint64_t *unfreed; /* still to come; the caller's */
    size_t n_unfreed;
    uint64_t live;     /* blocks made and not yet freed that will be */
    bool contradicted; /* one was freed that never is */
};

/* A New, the next by ordinal: will its block be freed? */
static inline bool mortals_new(struct mortals *m, uint64_t ordinal)
{
    if (m->n_unfreed == 0 || *m->unfreed != ordinal) {
        m->live++;
        return true;
    }
    m->unfreed++;
    m->n_unfreed--;
    return false;
}

/* A Free of a block that mortals_new has said that of. */
static inline void mortals_free(struct mortals *m, bool mortal)
{
    m->live -= mortal;
    m->contradicted |= !mortal;
}

/* After all: were the blocks of the list those that are never freed? */
static inline bool mortals_right(const struct mortals *m)
{
    return !m->contradicted && m->live == 0 && m->n_unfreed == 0;
}

#endif
