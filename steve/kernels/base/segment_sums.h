/* segment_sums.h - the numbers and bytes of the accesses of one run of a segment, by its words.
 *
 * A batch (mt_next_batch) has for each step the segment that ran and the places of its words. For sums of accesses by
 * block, by thread or in all, these numbers are enough. They are made once for each segment. Memory: O(segments), which
 * depends on the code of the program, not on the number of events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_SEGMENT_SUMS_H
#define STEVE_KERNELS_BASE_SEGMENT_SUMS_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/sums.h"

static inline void access_sums_add(struct access_sums *to, const struct access_sums *what, uint64_t times)
{
    for (unsigned i = 0; i < 3; i++) {
        to->counts[i] += times * what->counts[i];
        to->bytes[i] += times * what->bytes[i];
    }
}

/* One word of a segment. The first word also has what belongs to the whole segment. */
struct word_sum {
    uint64_t runs;          /* for the caller: number of runs of the segment, */
    uint64_t absent;        /* and of those in which the word did not count */
    struct access_sums own; /* of the word in a run */
    struct access_sums all; /* of the segment in a run */
    bool first;             /* is it the first word of its segment? */
};

struct words {
    struct word_sum *sums; /* by segment id + word */
    size_t n, room;
};

void words_free(struct words *w);
/* Learn all segments of a batch. False when out of memory. */
bool words_learn_more(struct words *w, const struct mt_batch *p);

static inline bool words_learn(struct words *w, const struct mt_batch *p)
{
    return p->n_segments <= w->n || words_learn_more(w, p);
}

#endif
