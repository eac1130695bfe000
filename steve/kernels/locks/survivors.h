/* survivors.h - which blocks will be freed, by the list of those that never are; and whether that list was
 * right.
 *
 * The list (ordinals of News, ascending) is of an earlier walk over the same operations, or of a file that
 * says it; such a file may be wrong, which shows once all operations have been met.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LOCKS_SURVIVORS_H
#define STEVE_KERNELS_LOCKS_SURVIVORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
