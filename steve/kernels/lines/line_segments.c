/* line_segments.c - what executions of a segment do to blocks, by line; see line_segments.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lines/line_segments.h"

#include "memtrace/base/array.h"

/* Take an access into a touch, if that is of its word and line and near enough. */
static bool join(struct linework_touch *t, const struct linework_touch *one)
{
    uint16_t from = one->from < t->from ? one->from : t->from;
    uint64_t t_end = (uint64_t)t->from + t->extent, end = (uint64_t)one->from + one->extent;

    end = end > t_end ? end : t_end;
    if (t->word != one->word || t->line != one->line || end - from > LINEWORK_REACH)
        return false;
    t->from = from;
    t->extent = (uint32_t)(end - from);
    t->site = one->site;
    return true;
}

/* The touch that an access is in: one from number `first` on, or a new one. */
static uint32_t touch_of(struct linework *w, uint32_t first, const struct linework_touch *one)
{
    for (uint32_t i = first; i < w->n_touches; i++)
        if (join(&w->touches[i], one))
            return i;
    w->sums[w->n_touches] = (struct access_sums){0};
    w->touches[w->n_touches] = *one;
    return w->n_touches++;
}

static struct linework_touch touch_by(const struct linework *w, const struct mt_segment_access *a)
{
    return (struct linework_touch){.line = linework_line(w->map.sites, w->map.n_sites, a->site),
                                   .extent = a->size + (a->size == 0),
                                   .site = a->site,
                                   .from = a->offset,
                                   .word = a->word,
                                   .jitted = luacode_is_jitted(w->code, a->site),
                                   .fetch = a->kind == MT_LOAD && a->size == LUACODE_INSTRUCTION};
}

static void add_touch(struct linework *w, uint32_t first, const struct mt_segment_access *a,
                      const struct linework_touch *one)
{
    struct access_sums *sums = &w->sums[touch_of(w, first, one)];

    sums->counts[a->kind - MT_LOAD]++;
    sums->bytes[a->kind - MT_LOAD] += a->size;
}

/* Add the accesses of a segment, for which there is room. If Lua is followed, an access that sets the line of Lua is a
 * touch of its own, and the accesses before and after it are in different touches. */
static void add_accesses(struct linework *w, const struct mt_segment_access *a, unsigned n, bool split)
{
    uint32_t first = w->n_touches;

    for (const struct mt_segment_access *end = a + n; a < end; a++) {
        struct linework_touch one = touch_by(w, a);
        bool alone = split && (one.jitted || one.fetch);

        if (a->kind < MT_LOAD || a->kind > MT_MODIFY)
            continue; /* its site was lost: such a word is never in a batch */
        first = alone ? w->n_touches : first;
        add_touch(w, first, a, &one);
        first = alone ? w->n_touches : first;
    }
}

static bool reserve(struct linework *w, unsigned count)
{
    size_t touches = (size_t)w->n_touches + count;

    return array_grow(&w->touches, &w->touches_room, touches, sizeof *w->touches) &&
           array_grow(&w->sums, &w->sums_room, touches, sizeof *w->sums);
}

static void learn_segment(struct linework *w, const struct mt_segment_word *segment,
                          const struct mt_segment_access *a)
{
    struct linework_segment *known = &w->segments[w->n_segments++];

    *known = (struct linework_segment){.first = w->n_touches,
                                       .jitted = luacode_all_jitted(w->code, a, segment->count)};
    add_accesses(w, a, segment->count, w->code->follows && !known->jitted);
    known->n = (uint8_t)(w->n_touches - known->first);
}

bool line_segments_learn_more(struct linework *w, const struct mt_batch *p)
{
    if (w->learned_lua != w->code->follows) { /* all of them again */
        line_segments_settle(w);
        w->n_segments = w->n_touches = 0;
        w->learned_lua = w->code->follows;
    }
    if (!array_grow(&w->segments, &w->segments_room, p->n_segments, sizeof *w->segments))
        return false;
    while (w->n_segments < p->n_segments) {
        const struct mt_segment_word *segment = &p->segments[w->n_segments];

        if (!reserve(w, segment->count))
            return false;
        learn_segment(w, segment, &p->accesses[segment->first]);
    }
    return true;
}

void line_segments_settle(struct linework *w)
{
    for (uint32_t i = 0; i < w->n_touches; i++) {
        struct linework_touch *t = &w->touches[i];

        access_sums_add(&w->rows[t->line].others, &w->sums[i], t->times[0]);
        access_sums_add(&w->rows[t->line].own, &w->sums[i], t->times[1]);
        w->rows[t->line].blocks += t->blocks;
        t->times[0] = t->times[1] = t->blocks = 0;
    }
}
