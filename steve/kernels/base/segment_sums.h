/* segment_sums.h - the numbers and bytes of the accesses of one run of a segment, by its words; and how often each
 * segment of a batch ran, for sums by thread and by site.
 *
 * A batch (mt_next_batch) has for each step the segment that ran and the places of its words. For sums of accesses by
 * block, by thread or in all, these numbers are enough. They are made once for each segment. Memory: O(segments), which
 * depends on the code of the program, not on the number of events.
 *
 * All executions of a segment add the same numbers to its sites, so these are added once for all executions in a batch.
 * Adding them at each execution would be slower, because each addition to a number waits for the one before. The
 * sums of a thread are added at each execution, because threads may alternate at every step. Nearly always all words
 * of a segment lie in blocks; those that do not are counted and subtracted. The segments that ran are listed, so
 * that the time is proportional to the steps. Memory: O(segments).
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

struct segment_runs {
    struct words words; /* with runs since they were last settled */
    uint32_t *met;      /* ids of segments that ran, n_met of them */
    size_t n_met, met_room;
};

void segment_runs_free(struct segment_runs *r);
/* Learn all segments of a batch. False when out of memory. */
bool segment_runs_learn(struct segment_runs *r, const struct mt_batch *p);

/* A segment ran in a thread; thread: its sums. */
static inline void segment_runs_add(struct segment_runs *r, uint32_t id, struct access_sums *thread)
{
    struct word_sum *word = &r->words.sums[id];

    r->met[r->n_met] = id;
    r->n_met += word->runs++ == 0;
    access_sums_add(thread, &word->all, 1);
}

/* A word of that segment did not count. */
static inline void segment_runs_absent(struct segment_runs *r, uint32_t id, struct access_sums *thread)
{
    r->words.sums[id].absent++;
    access_sums_add(thread, &r->words.sums[id].own, UINT64_MAX); /* -1 */
}

/* Add all runs to the sums of their sites, and set them to 0. Unknown sites count as number 0. */
void segment_runs_settle(struct segment_runs *r, const struct mt_batch *p, struct access_sums *sites,
                         size_t n_sites);

#endif
