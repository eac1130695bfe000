/* part_sizes.c - operations and handles of a part of a trace; see part_sizes.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/totals/part_sizes.h"

#include "memtrace/base/array.h"

void survey_init(struct survey *s, bool resizes)
{
    *s = (struct survey){.resizes = resizes};
}

void survey_free(struct survey *s)
{
    free(s->slots);
}

static bool set(struct survey *s, uint32_t slot, uint64_t what)
{
    if (!array_grow(&s->slots, &s->n_slots, (size_t)slot + 1, sizeof *s->slots))
        return false;
    s->slots[slot] = what;
    return true;
}

/* A New, Free or Resize. */
static bool heap_event(struct survey *s, const struct mt_event *e)
{
    s->operations++;
    if (e->kind == MT_FREE)
        return set(s, e->slot, SURVEY_NONE);
    if (e->kind == MT_RESIZE && s->resizes)
        return true;
    s->operations += e->kind == MT_RESIZE;
    return set(s, e->slot, s->handles++ + SURVEY_MADE);
}

bool survey_feed(struct survey *s, const struct mt_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t kind = events[i].kind;

        if (kind <= MT_RESIZE && !heap_event(s, &events[i]))
            return false;
        s->operations += kind > MT_RESIZE && kind <= MT_MODIFY;
    }
    return true;
}
