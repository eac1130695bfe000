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

/* Does an access belong to a touch? Then that has it, too. */
static bool join(struct linework_touch *t, const struct mt_pattern_access *a, uint32_t line)
{
    uint64_t size = a->size + (a->size == 0), t_end = (uint64_t)t->from + t->extent, end = a->offset + size;
    uint16_t from = a->offset < t->from ? a->offset : t->from;

    end = end > t_end ? end : t_end;
    if (t->word != a->word || t->line != line || end - from > LINEWORK_REACH)
        return false;
    t->from = from;
    t->extent = (uint32_t)(end - from);
    return true;
}

/* The touch of an access: one from `first` on, or a new one, for which there is room. */
static struct linework_touch *touch_of(struct linework *w, uint32_t first, const struct mt_pattern_access *a,
                                       uint32_t line)
{
    for (struct linework_touch *t = &w->touches[first]; t < &w->touches[w->n_touches]; t++)
        if (join(t, a, line))
            return t;
    w->sums[w->n_touches] = (struct linework_accesses){0};
    w->touches[w->n_touches] =
        (struct linework_touch){
            .line = line, .extent = a->size + (a->size == 0), .from = a->offset, .word = a->word};
    return &w->touches[w->n_touches++];
}

static void add_access(struct linework *w, struct linework_pattern *known, const struct mt_pattern_access *a,
                       const struct linework_access *access)
{
    struct linework_accesses *sums;

    if (access->kind > MT_MODIFY - MT_LOAD)
        return; /* its site was lost: such a word is never packed */
    sums = &w->sums[touch_of(w, known->first, a, access->line) - w->touches];
    sums->counts[access->kind]++;
    sums->bytes[access->kind] += access->size;
    known->jitted += access->jitted;
}

static bool reserve(struct linework *w, const struct mt_pattern *pattern)
{
    size_t accesses = (size_t)pattern->first + pattern->count, touches = (size_t)w->n_touches + pattern->count;

    return grow(&w->accesses, &w->accesses_room, accesses, sizeof *w->accesses) &&
           grow(&w->touches, &w->touches_room, touches, sizeof *w->touches) &&
           grow(&w->sums, &w->sums_room, touches, sizeof *w->sums);
}

bool linepatterns_learn_more(struct linework *w, const struct mt_packed *p)
{
    if (!grow(&w->patterns, &w->patterns_room, p->n_patterns, sizeof *w->patterns))
        return false;
    for (; w->n_patterns < p->n_patterns; w->n_patterns++) {
        const struct mt_pattern *pattern = &p->patterns[w->n_patterns];
        struct linework_pattern *known = &w->patterns[w->n_patterns];

        if (!reserve(w, pattern))
            return false;
        *known = (struct linework_pattern){.first = w->n_touches};
        for (size_t i = pattern->first; i < (size_t)pattern->first + pattern->count; i++) {
            w->accesses[i] = known_of(w, &p->accesses[i]);
            add_access(w, known, &p->accesses[i], &w->accesses[i]);
        }
        known->n = (uint8_t)(w->n_touches - known->first);
    }
    return true;
}

static void settle_access(struct linework_accesses *a, const struct linework_access *known, uint64_t times)
{
    a->counts[known->kind] += times;
    a->bytes[known->kind] += times * known->size;
}

static void settle_touch(struct linework_accesses *a, const struct linework_accesses *sums, uint64_t times)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        a->counts[kind] += times * sums->counts[kind];
        a->bytes[kind] += times * sums->bytes[kind];
    }
}

void linepatterns_settle(struct linework *w)
{
    for (size_t i = 0; i < w->accesses_room; i++) {
        struct linework_access *a = &w->accesses[i];
        if (a->times[0] + a->times[1] == 0)
            continue;
        settle_access(&w->rows[a->line].others, a, a->times[0]);
        settle_access(&w->rows[a->line].own, a, a->times[1]);
        a->times[0] = a->times[1] = 0;
    }
    for (size_t i = 0; i < w->n_touches; i++) {
        struct linework_touch *t = &w->touches[i];

        if (t->times[0] + t->times[1] == 0)
            continue;
        settle_touch(&w->rows[t->line].others, &w->sums[i], t->times[0]);
        settle_touch(&w->rows[t->line].own, &w->sums[i], t->times[1]);
        t->times[0] = t->times[1] = 0;
    }
}
