/* segment_sums.h - what one run of a segment does to memory, by its words: so many loads of so many bytes...
 *
 * A batch (mt_next_batch) tells only which segment ran and where its words lay. Whoever adds up
 * accesses by block, by thread or in all needs no more than these sums, which are made once for each segment.
 * Memory: O(segments), which is code, not events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_SEGMENT_SUMS_H
#define STEVE_KERNELS_BASE_SEGMENT_SUMS_H

#include "memtrace/memtrace.h"

/* Accesses by kind, from MT_LOAD: how many, of how many bytes. */
struct access_sums {
    uint64_t counts[3], bytes[3];
};

static inline void access_sums_add(struct access_sums *to, const struct access_sums *what, uint64_t times)
{
    for (unsigned i = 0; i < 3; i++) {
        to->counts[i] += times * what->counts[i];
        to->bytes[i] += times * what->bytes[i];
    }
}

/* One word of a segment; what belongs to the segment stands in its first word's. */
struct word_sum {
    uint64_t runs;          /* for the caller: how often the segment ran, */
    uint64_t absent;        /* and in how many of those runs the word did not count */
    struct access_sums own; /* what the word does in a run */
    struct access_sums all; /* and what the segment does */
    bool first;             /* of its segment */
};

struct words {
    struct word_sum *sums; /* by segment id + word */
    size_t n, room;
};

void words_free(struct words *w);
/* Know all segments of a batch; false when out of memory. */
bool words_learn_more(struct words *w, const struct mt_batch *p);

static inline bool words_learn(struct words *w, const struct mt_batch *p)
{
    return p->n_segments <= w->n || words_learn_more(w, p);
}

#endif
