/* survivors.c - which blocks are never freed; see survivors.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/locks/survivors.h"

#include "memtrace/base/array.h"
#include "memtrace/base/id_list.h"

bool unfreed_init(struct unfreed *u)
{
    memset(u, 0, sizeof *u);
    return handle_map_init(&u->live);
}

void unfreed_free(struct unfreed *u)
{
    handle_map_free(&u->live);
    free(u->ordinal);
    free(u->by_slot);
    free(u->list);
}

static bool note(struct unfreed *u, uint64_t ordinal)
{
    if (!array_grow(&u->list, &u->list_room, u->n + 1, sizeof *u->list))
        return false;
    u->list[u->n++] = ordinal;
    return true;
}

/* An N for a handle that still lives ends the earlier block without a free. */
static bool block_new(struct unfreed *u, uint64_t handle)
{
    uint32_t old = handle_map_remove(&u->live, handle);
    uint32_t i;

    if (old != HANDLE_MAP_NONE && !note(u, u->ordinal[old]))
        return false;
    i = handle_map_add(&u->live, handle);
    if (i == HANDLE_MAP_NONE || !array_grow(&u->ordinal, &u->room, (size_t)i + 1, sizeof *u->ordinal))
        return false;
    u->ordinal[i] = u->news++;
    return true;
}

bool unfreed_feed(struct unfreed *u, const struct op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].code == OP_NEW && !block_new(u, ops[i].handle))
            return false;
        if (ops[i].code == OP_FREE)
            handle_map_remove(&u->live, ops[i].handle);
    }
    return true;
}

static bool slot_new(struct unfreed *u, uint32_t slot)
{
    if (!array_grow(&u->by_slot, &u->slots, (size_t)slot + 1, sizeof *u->by_slot))
        return false;
    if (u->by_slot[slot] && !note(u, u->by_slot[slot] - 1))
        return false;
    u->by_slot[slot] = ++u->news;
    return true;
}

static void slot_free(struct unfreed *u, uint32_t slot)
{
    if (slot < u->slots)
        u->by_slot[slot] = 0;
}

bool unfreed_feed_events(struct unfreed *u, const struct mt_event *events, size_t n)
{
    for (const struct mt_event *e = events; e < events + n; e++) {
        if (e->kind == MT_FREE || e->kind == MT_RESIZE)
            slot_free(u, e->slot);
        if ((e->kind == MT_NEW || e->kind == MT_RESIZE) && !slot_new(u, e->slot))
            return false;
    }
    return true;
}

bool unfreed_finish(struct unfreed *u)
{
    for (size_t i = 0; i <= u->live.mask; i++)
        if (u->live.entries[i].key != 0 && !note(u, u->ordinal[u->live.entries[i].index]))
            return false;
    for (size_t i = 0; i < u->slots; i++)
        if (u->by_slot[i] && !note(u, u->by_slot[i] - 1))
            return false;
    id_list_sort(u->list, u->n);
    return true;
}
