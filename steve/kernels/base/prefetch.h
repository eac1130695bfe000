/* prefetch.h - prefetches what a batch will need of an array with one element for each live block.
 *
 * Blocks are accessed in any order, and the elements of ten thousand of them do not fit into the first caches, so a
 * kernel would wait for each. All slots of a batch are known before the first is needed, so their elements can be
 * prefetched: those of events a few events ahead, because all at once would evict each other; those of words all at
 * once. Results do not depend on it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_PREFETCH_H
#define STEVE_KERNELS_BASE_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

#include "memtrace/base/prefetch.h"
#include "memtrace/reader.h"

#define AHEAD_LINE 64        /* bytes of a cache line, mostly */
#define AHEAD_EVENTS 16      /* number of events to look ahead */
#define AHEAD_NEAR (4 << 20) /* bytes of an array that stays in the caches without prefetching */

/* An array by slot: `room` elements of `size` bytes, of which `need` bytes from offset `past` on are prefetched. */
struct ahead {
    const void *array;
    size_t room, size, past, need;
};

__attribute__((always_inline)) static inline void ahead_slot(const struct ahead a, uint32_t slot)
{
    const char *element;

    if (slot >= a.room)
        return;
    element = (const char *)a.array + slot * a.size + a.past;
    for (size_t i = 0; i < a.need - 1; i += AHEAD_LINE)
        fetch_soon(element + i);
    fetch_soon(element + a.need - 1);
}

/* Prefetch the blocks of n of the batch's events, AHEAD_EVENTS after the next one. Events without a block have slot
 * 0. */
__attribute__((always_inline)) static inline void ahead_events(const struct ahead a, const struct mt_batch *p,
                                                               const struct mt_event *next, unsigned n)
{
    size_t left = (size_t)(p->events + p->n_events - next);

    if (left <= AHEAD_EVENTS)
        return;
    next += AHEAD_EVENTS;
    left -= AHEAD_EVENTS;
    for (const struct mt_event *end = next + (n < left ? n : left); next < end; next++)
        ahead_slot(a, next->slot);
}

/* Prefetch the blocks of the segments' words. Successive words often lie in the same block, and most blocks are
 * accessed repeatedly, so it is of use only for large arrays. */
__attribute__((always_inline)) static inline void ahead_words(const struct ahead a, const struct mt_batch *p)
{
    uint32_t last = MT_NO_SLOT;

    if (a.room * a.size <= AHEAD_NEAR)
        return;
    for (const struct mt_place *w = p->places; w < p->places + p->n_places; w++) {
        if (w->slot != last)
            ahead_slot(a, w->slot);
        last = w->slot;
    }
}

#endif
