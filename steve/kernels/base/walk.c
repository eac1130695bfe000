/* walk.c - the events of chosen blocks; see walk.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/base/walk.h"

#include "memtrace/base/array.h"

void walk_init(struct walk *w, const uint8_t *selected, uint64_t n_selected)
{
    memset(w, 0, sizeof *w);
    w->selected = selected;
    w->n_selected = n_selected;
}

void walk_free(struct walk *w)
{
    free(w->mine);
    free(w->copy);
}

static bool is_chosen(const struct walk *w, uint64_t handle)
{
    return handle >= w->since &&
           (!w->selected || (handle < w->n_selected && (w->selected[handle / 8] >> handle % 8 & 1)));
}

bool walk_enter(struct walk *w, const struct mt_live_block *live)
{
    if (!array_grow(&w->mine, &w->room, (size_t)live->slot + 1, 1))
        return false;
    w->mine[live->slot] = is_chosen(w, live->handle);
    return true;
}

/* Does the event belong to a chosen block? That is decided at the New, for the life of the block. */
static bool counts(struct walk *w, const struct mt_event *e)
{
    bool mine;

    if (e->kind == MT_NEW)
        w->mine[e->slot] = is_chosen(w, e->handle);
    mine = e->slot < w->room && w->mine[e->slot];
    if (mine && e->kind == MT_FREE)
        w->mine[e->slot] = false;
    return mine;
}

const struct mt_event *walk_filter(struct walk *w, const struct mt_event *events, size_t n)
{
    if (!array_grow(&w->copy, &w->copy_room, n, sizeof *w->copy))
        return NULL;
    memcpy(w->copy, events, n * sizeof *events);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind > MT_MODIFY)
            continue;
        if (events[i].kind == MT_NEW && !array_grow(&w->mine, &w->room, (size_t)events[i].slot + 1, 1))
            return NULL;
        if (!counts(w, &events[i]))
            w->copy[i].kind = WALK_OTHER;
    }
    return w->copy;
}

/* Does it only describe a live block? */
static bool describes_live_block(const struct mt_event *e)
{
    return e->kind == MT_TYPE || e->kind == MT_REACH;
}

static bool describes_selected_block(const struct walk *w, const struct mt_event *e)
{
    return describes_live_block(e) && e->slot < w->room && w->mine[e->slot];
}

static bool is_left(const struct walk *w, const struct mt_event *e)
{
    if (describes_live_block(e))
        return describes_selected_block(w, e);
    return e->kind != WALK_OTHER && (e->kind != MT_BADFREE || !w->selected);
}

size_t walk_pack(struct walk *w, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (is_left(w, &w->copy[i]))
            w->copy[kept++] = w->copy[i];
    return kept;
}

void walk_hide_blockless(struct walk *w, size_t n)
{
    for (size_t i = 0; w->selected && i < n; i++)
        if (w->copy[i].kind > MT_MODIFY && !describes_selected_block(w, &w->copy[i]))
            w->copy[i].kind = WALK_OTHER;
}
