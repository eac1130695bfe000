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
