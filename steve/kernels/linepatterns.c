/* linepatterns.c - what executions of a pattern do to blocks, by line; see linepatterns.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/linepatterns.h"

#include "memtrace/grow.h"

static struct linework_access known_of(const struct linework *w, const struct mt_pattern_access *a)
{
    return (struct linework_access){.line = linework_line(w->map.sites, w->map.n_sites, a->site),
                                    .size = a->size,
                                    .kind = (uint8_t)(a->kind - MT_LOAD),
                                    .jitted = a->site < w->code->n_sites && w->code->jitted[a->site]};
}

bool linepatterns_learn_more(struct linework *w, const struct mt_packed *p)
{
    for (; w->n_patterns < p->n_patterns; w->n_patterns++) {
        const struct mt_pattern *pattern = &p->patterns[w->n_patterns];
        size_t end = (size_t)pattern->first + pattern->count;

        if (!grow(&w->accesses, &w->accesses_room, end, sizeof *w->accesses))
            return false;
        for (size_t i = pattern->first; i < end; i++)
            w->accesses[i] = known_of(w, &p->accesses[i]);
    }
    return true;
}

static void settle(struct linework_accesses *a, const struct linework_access *known, uint64_t times)
{
    a->counts[known->kind] += times;
    a->bytes[known->kind] += times * known->size;
}

void linepatterns_settle(struct linework *w)
{
    for (size_t i = 0; i < w->accesses_room; i++) {
        struct linework_access *a = &w->accesses[i];
        if (a->times[0] + a->times[1] == 0)
            continue;
        settle(&w->rows[a->line].others, a, a->times[0]);
        settle(&w->rows[a->line].own, a, a->times[1]);
        a->times[0] = a->times[1] = 0;
    }
}
