/* segment_sums.c - sums of segments; see segment_sums.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/segment_sums.h"

#include "memtrace/base/array.h"

void words_free(struct words *w)
{
    free(w->sums);
}

static void add_access(struct access_sums *sums, const struct mt_segment_access *a)
{
    sums->counts[a->kind - MT_LOAD]++;
    sums->bytes[a->kind - MT_LOAD] += a->size;
}

static void add_segment(struct word_sum *sums, const struct mt_batch *p,
                        const struct mt_segment_word *segment)
{
    sums->first = segment->count > 0;
    for (uint32_t i = 0; i < segment->count; i++) {
        const struct mt_segment_access *a = &p->accesses[segment->first + i];

        if (a->kind < MT_LOAD || a->kind > MT_MODIFY)
            continue; /* its site was lost: such a word is never in a batch */
        add_access(&sums[a->word].own, a);
        add_access(&sums->all, a);
    }
}

bool words_learn_more(struct words *w, const struct mt_batch *p)
{
    if (!array_grow(&w->sums, &w->room, p->n_segments, sizeof *w->sums))
        return false;
    for (; w->n < p->n_segments; w->n++)
        add_segment(&w->sums[w->n], p, &p->segments[w->n]);
    return true;
}

/* ---- runs ----------------------------------------------------------------------------------- */

void segment_runs_free(struct segment_runs *r)
{
    words_free(&r->words);
    free(r->met);
}

bool segment_runs_learn(struct segment_runs *r, const struct mt_batch *p)
{
    return words_learn(&r->words, p) &&
           array_grow(&r->met, &r->met_room, (size_t)p->n_segments + 1, sizeof *r->met);
}

/* The accesses of a segment, without its words that did not count. */
static void add_runs(const struct word_sum *words, const struct mt_batch *p,
                     const struct mt_segment_word *segment, struct access_sums *sites, size_t n_sites)
{
    for (uint32_t i = 0; i < segment->count; i++) {
        const struct mt_segment_access *a = &p->accesses[segment->first + i];
        struct access_sums *site = &sites[a->site < n_sites ? a->site : 0];
        uint64_t times = words->runs - words[a->word].absent;

        if (times == 0) /* and so of one whose site was lost, which has no kind */
            continue;
        site->counts[a->kind - MT_LOAD] += times;
        site->bytes[a->kind - MT_LOAD] += times * a->size;
    }
}

void segment_runs_settle(struct segment_runs *r, const struct mt_batch *p, struct access_sums *sites,
                         size_t n_sites)
{
    while (r->n_met) {
        uint32_t id = r->met[--r->n_met];
        struct word_sum *words = &r->words.sums[id];

        add_runs(words, p, &p->segments[id], sites, n_sites);
        words->runs = 0;
        for (uint32_t w = 0; w < p->segments[id].words; w++)
            words[w].absent = 0;
    }
}
