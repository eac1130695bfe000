/* batch_walk.h - the one loop over the steps of a batch (mt_next_batch).
 *
 * BATCH_WALK(kernel, on_events, on_segment) defines kernel_walk(struct kernel *k, const struct mt_batch *batch), which calls
 * for each step, in order, either
 *     on_events(k, batch, events, n)           the next single events
 *     on_segment(k, batch, step, places)       a segment ran, its words in these places
 * Both return false when out of memory, and so does the walk, which then ends. Both are inlined.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_BATCH_WALK_H
#define STEVE_KERNELS_BASE_BATCH_WALK_H

#include "memtrace/reader.h"

#define BATCH_WALK(kernel, on_events, on_segment)                                                            \
    static bool kernel##_walk(struct kernel *k, const struct mt_batch *batch)                                \
    {                                                                                                        \
        const struct mt_place *places = batch->places;                                                       \
        const struct mt_event *events = batch->events;                                                       \
                                                                                                             \
        for (const struct mt_step *step = batch->steps; step < batch->steps + batch->n_steps; step++) {      \
            if (step->segment != MT_STEP_EVENTS) {                                                           \
                if (!on_segment(k, batch, step, places))                                                     \
                    return false;                                                                            \
                places += batch->segments[step->segment].words;                                              \
            } else {                                                                                         \
                if (!on_events(k, batch, events, step->count))                                               \
                    return false;                                                                            \
                events += step->count;                                                                       \
            }                                                                                                \
        }                                                                                                    \
        return true;                                                                                         \
    }

/* A batch of n events as mt_next delivers them, which are at most MT_STEP_MOST. *step is its only step. */
static inline struct mt_batch batch_of_events(const struct mt_event *events, size_t n, struct mt_step *step)
{
    *step = (struct mt_step){.segment = MT_STEP_EVENTS, .count = (uint16_t)n};
    return (struct mt_batch){.steps = step, .n_steps = n > 0, .events = events, .n_events = n, .count = n};
}

#endif
