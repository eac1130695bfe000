/* faults.c - the events that are errors of the program; see faults.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/faults.h"

static bool is_excused(const struct mt_event *e)
{
    return e->kind == MT_LOAD && e->beyond && e->addr % (e->size ? e->size : 1) == 0;
}

static inline bool is_fault(const struct mt_event *e)
{
    if (e->kind == MT_BADFREE)
        return true;
    return e->kind >= MT_LOAD && e->kind <= MT_MODIFY && (e->freed || e->beyond) && !is_excused(e);
}

size_t faults_pick(const struct mt_event *events, size_t n, struct mt_event *out)
{
    size_t picked = 0;

    for (size_t i = 0; i < n; i++)
        if (is_fault(&events[i]))
            out[picked++] = events[i];
    return picked;
}
