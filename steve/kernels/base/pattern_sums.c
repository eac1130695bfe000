/* pattern_sums.c - sums of patterns; see pattern_sums.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/pattern_sums.h"

#include "memtrace/base/array.h"

void words_free(struct words *w)
{
    free(w->sums);
}

static void add_access(struct access_sums *sums, const struct mt_pattern_access *a)
{
    sums->counts[a->kind - MT_LOAD]++;
    sums->bytes[a->kind - MT_LOAD] += a->size;
}

static void add_pattern(struct word_sum *sums, const struct mt_packed *p, const struct mt_pattern *pattern)
{
    sums->first = pattern->count > 0;
    for (uint32_t i = 0; i < pattern->count; i++) {
        const struct mt_pattern_access *a = &p->accesses[pattern->first + i];

        if (a->kind < MT_LOAD || a->kind > MT_MODIFY)
            continue; /* its site was lost: such a word is never packed */
        add_access(&sums[a->word].own, a);
        add_access(&sums->all, a);
    }
}

bool words_learn_more(struct words *w, const struct mt_packed *p)
{
    if (!array_grow(&w->sums, &w->room, p->n_patterns, sizeof *w->sums))
        return false;
    for (; w->n < p->n_patterns; w->n++)
        add_pattern(&w->sums[w->n], p, &p->patterns[w->n]);
    return true;
}
