/* survey.c - what a shard of a trace changes; see survey.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/survey.h"

#include "memtrace/base/array.h"

void survey_init(struct survey *s, unsigned wanted)
{
    *s = (struct survey){.wanted = wanted};
}

void survey_free(struct survey *s)
{
    free(s->handle_of);
    free(s->owner_of);
}

static bool set_handle(struct survey *s, uint32_t slot, uint64_t what)
{
    if (!(s->wanted & SURVEY_HANDLES))
        return true;
    if (!array_grow(&s->handle_of, &s->n_handle_of, (size_t)slot + 1, sizeof *s->handle_of))
        return false;
    s->handle_of[slot] = what;
    return true;
}

static bool set_owner(struct survey *s, uint32_t slot, uint32_t what)
{
    if (!(s->wanted & SURVEY_OWNERS))
        return true;
    if (!array_grow(&s->owner_of, &s->n_owner_of, (size_t)slot + 1, sizeof *s->owner_of))
        return false;
    s->owner_of[slot] = what;
    return true;
}

static bool heap_event(struct survey *s, const struct mt_event *e)
{
    s->operations++;
    if (e->kind == MT_FREE)
        return set_handle(s, e->slot, SURVEY_NONE) && set_owner(s, e->slot, SURVEY_NONE);
    if (e->kind == MT_NEW)
        return set_handle(s, e->slot, s->handles++ + SURVEY_MADE) &&
               set_owner(s, e->slot, e->ref + SURVEY_MADE);
    if (!(s->wanted & SURVEY_SPLIT))
        return true;
    s->operations++;
    return set_handle(s, e->slot, s->handles++ + SURVEY_MADE);
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
