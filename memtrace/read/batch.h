/* batch.h - batches of segments, for mt_next_batch: used by decoder.c and reader.c only.
 *
 * Most of the time of reading is spent on writing events, 72 bytes for each access. But the addresses of a few words
 * determine all accesses of a segment. A batch therefore contains, for each segment that ran, its line in the
 * codebook and the places of its words. This is possible only if all accesses of each word are in one live block, or
 * all in none. Other segments are delivered as events, so that readers of batches do not have to check this.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_BATCH_H
#define MEMTRACE_READ_BATCH_H

#include "memtrace/format/codebook.h"

#define BATCH_STEPS 512
#define BATCH_PLACES ((BATCH_STEPS + 1) * MT_SEGMENT_WORDS)

struct batch {
    struct mt_step steps[BATCH_STEPS + 1];
    struct mt_place places[BATCH_PLACES];
    uint32_t n_steps, n_places, n_events;
    uint64_t total;                   /* number of events that the steps contain */
    struct mt_segment_word *segments; /* by line of the codebook */
    struct mt_segment_access *accesses;
    uint32_t n_segments, n_accesses;
    size_t room_segments, room_accesses;
};

void batch_free(struct batch *p);

/* Add descriptions of the segments of the codebook that have none yet; false when out of memory. */
bool batch_learn(struct batch *p, const struct codebook *b);

static inline void batch_empty(struct batch *p)
{
    p->n_steps = p->n_places = p->n_events = 0;
    p->total = 0;
}

/* Is there room for another segment? */
static inline bool batch_has_room(const struct batch *p)
{
    return p->n_steps < BATCH_STEPS;
}

/* Where to store the places of the next segment. */
static inline struct mt_place *batch_places(struct batch *p)
{
    return p->places + p->n_places;
}

/* Add a step for the next n events in the array of events. */
static inline void batch_events(struct batch *p, size_t n)
{
    struct mt_step *last = p->n_steps ? &p->steps[p->n_steps - 1] : NULL;
    p->total += n;
    p->n_events += (uint32_t)n;
    if (n && last && last->segment == MT_STEP_EVENTS)
        last->count = (uint16_t)(last->count + n);
    else if (n)
        p->steps[p->n_steps++] = (struct mt_step){.segment = MT_STEP_EVENTS, .count = (uint16_t)n};
}

#endif
