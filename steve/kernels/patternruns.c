/* patternruns.c - how often each pattern of a packed batch ran; see patternruns.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/patternruns.h"

#include "steve/kernels/grow.h"

void patternruns_free(struct patternruns *r)
{
    free(r->words);
    free(r->met);
}

static void count(struct access_sums *sums, const struct mt_pattern_access *a, uint64_t times)
{
    sums->counts[a->kind - MT_LOAD] += times;
    sums->bytes[a->kind - MT_LOAD] += times * a->size;
}

static void learn_pattern(struct patternruns_word *words, const struct mt_packed *p,
                          const struct mt_pattern *pattern)
{
    for (uint32_t i = 0; i < pattern->count; i++) {
        const struct mt_pattern_access *a = &p->accesses[pattern->first + i];

        if (a->kind < MT_LOAD || a->kind > MT_MODIFY)
            continue; /* its site was lost: such a word is never packed */
        count(&words->all, a, 1);
        count(&words[a->word].own, a, 1);
    }
}

bool patternruns_learn_more(struct patternruns *r, const struct mt_packed *p)
{
    if (!grow(&r->words, &r->room, p->n_patterns, sizeof *r->words) ||
        !grow(&r->met, &r->met_room, (size_t)p->n_patterns + 1, sizeof *r->met))
        return false;
    for (; r->n < p->n_patterns; r->n++)
        learn_pattern(&r->words[r->n], p, &p->patterns[r->n]);
    return true;
}

static void settle_pattern(struct patternruns_word *words, const struct mt_packed *p,
                           const struct mt_pattern *pattern, struct access_sums *sites, size_t n_sites)
{
    for (uint32_t i = 0; i < pattern->count; i++) {
        const struct mt_pattern_access *a = &p->accesses[pattern->first + i];
        uint64_t times = words->runs - words[a->word].absent;

        if (times)
            count(&sites[a->site < n_sites ? a->site : 0], a, times);
    }
    words->runs = 0;
    for (uint32_t w = 0; w < pattern->words; w++)
        words[w].absent = 0;
}

void patternruns_settle(struct patternruns *r, const struct mt_packed *p, struct access_sums *sites,
                        size_t n_sites)
{
    while (r->n_met) {
        uint32_t id = r->met[--r->n_met];

        settle_pattern(&r->words[id], p, &p->patterns[id], sites, n_sites);
    }
}
