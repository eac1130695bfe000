/* segment_runs.h - how often each segment of a batch ran, for sums by thread and by site.
 *
 * What executions of a segment do alike, such as loads of so many bytes by its sites, is added up once for
 * all of them: not for each one, since numbers that are changed again and again wait for each other. A thread
 * is given what a run does in all, for threads may alternate at every step. Nearly always all words of a
 * segment lie in blocks; those that do not are counted, and taken off. Which segments ran is listed, so that
 * taking the sum costs no more than the steps did. Memory: O(segments).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_SEGMENT_RUNS_H
#define STEVE_KERNELS_BASE_SEGMENT_RUNS_H

#include "steve/kernels/base/segment_sums.h"

struct segment_runs {
    struct words words; /* with runs since they were last settled */
    uint32_t *met;      /* ids of segments that ran, n_met of them */
    size_t n_met, met_room;
};

void segment_runs_free(struct segment_runs *r);
/* Know all segments of a batch; false when out of memory. */
bool segment_runs_learn(struct segment_runs *r, const struct mt_batch *p);

/* A segment ran in a thread, whose sums are told. */
static inline void segment_runs_add(struct segment_runs *r, uint32_t id, struct access_sums *thread)
{
    struct word_sum *word = &r->words.sums[id];

    r->met[r->n_met] = id;
    r->n_met += word->runs++ == 0;
    access_sums_add(thread, &word->all, 1);
}

/* But a word of it did not count. */
static inline void segment_runs_absent(struct segment_runs *r, uint32_t id, struct access_sums *thread)
{
    r->words.sums[id].absent++;
    access_sums_add(thread, &r->words.sums[id].own, UINT64_MAX); /* -1 */
}

/* Add what ran to the sums of its sites, and forget it; sites that are not known count as number 0. */
void segment_runs_settle(struct segment_runs *r, const struct mt_batch *p, struct access_sums *sites,
                         size_t n_sites);

#endif
