/* slot_owners.c - which stack made the block that each slot holds; see slot_owners.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/slot_owners.h"

#include "memtrace/base/array.h"

void owners_init(struct owners *o)
{
    *o = (struct owners){0};
}

void owners_free(struct owners *o)
{
    free(o->slots);
}

bool owners_feed(struct owners *o, const struct mt_event *events, size_t n)
{
    for (const struct mt_event *e = events; e < events + n; e++) {
        if (e->kind != MT_NEW && e->kind != MT_FREE)
            continue;
        if (!array_grow(&o->slots, &o->n_slots, (size_t)e->slot + 1, sizeof *o->slots))
            return false;
        o->slots[e->slot] = e->kind == MT_FREE ? OWNERS_NONE : e->ref + OWNERS_MADE;
    }
    return true;
}
