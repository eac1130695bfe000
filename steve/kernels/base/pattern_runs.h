/* pattern_runs.h - how often each pattern of a packed batch ran, for sums by thread and by site.
 *
 * What executions of a pattern do alike, such as loads of so many bytes by its sites, is added up once for
 * all of them: not for each one, since numbers that are changed again and again wait for each other. A thread
 * is given what a run does in all, for threads may alternate at every step. Nearly always all words of a
 * pattern lie in blocks; those that do not are counted, and taken off. Which patterns ran is listed, so that
 * taking the sum costs no more than the steps did. Memory: O(patterns).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_PATTERN_RUNS_H
#define STEVE_KERNELS_BASE_PATTERN_RUNS_H

#include "steve/kernels/base/pattern_sums.h"

struct patternruns {
    struct words words; /* with runs since they were last settled */
    uint32_t *met;      /* ids of patterns that ran, n_met of them */
    size_t n_met, met_room;
};

void patternruns_free(struct patternruns *r);
/* Know all patterns of a batch; false when out of memory. */
bool patternruns_learn(struct patternruns *r, const struct mt_packed *p);

/* A pattern ran in a thread, whose sums are told. */
static inline void patternruns_add(struct patternruns *r, uint32_t id, struct access_sums *thread)
{
    struct word_sum *word = &r->words.sums[id];

    r->met[r->n_met] = id;
    r->n_met += word->runs++ == 0;
    access_sums_add(thread, &word->all, 1);
}

/* But a word of it did not count. */
static inline void patternruns_absent(struct patternruns *r, uint32_t id, struct access_sums *thread)
{
    r->words.sums[id].absent++;
    access_sums_add(thread, &r->words.sums[id].own, UINT64_MAX); /* -1 */
}

/* Add what ran to the sums of its sites, and forget it; sites that are not known count as number 0. */
void patternruns_settle(struct patternruns *r, const struct mt_packed *p, struct access_sums *sites,
                        size_t n_sites);

#endif
