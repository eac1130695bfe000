/* check.c - the invariants of a trace; see check.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/totals/check.h"

#include "memtrace/base/array.h"

void check_init(struct check *c)
{
    memset(c, 0, sizeof *c);
    intervals_init(&c->ranges);
}

void check_free(struct check *c)
{
    intervals_free(&c->ranges);
    free(c->blocks);
}

static void note(struct check *c, struct check_finding *finding, const struct mt_event *e)
{
    if (!c->shows || finding->count++ > 0)
        return;
    finding->event = c->n_events;
    finding->first = *e;
}

static inline void expect(struct check *c, bool holds, enum check_rule rule, const struct mt_event *e)
{
    if (__builtin_expect(!holds, 0))
        note(c, &c->findings[rule], e);
}

/* The live block in the event's slot if it is the one the event names, else NULL. */
static struct check_block *block_of(struct check *c, const struct mt_event *e)
{
    struct check_block *block = e->slot < c->room ? &c->blocks[e->slot] : NULL;
    bool holds = block && block->live && block->handle == e->handle;

    expect(c, holds, CHECK_BLOCK, e);
    return holds ? block : NULL;
}

/* The last address of a block. An empty block takes up its address; none reaches beyond the last one. */
static uint64_t last_of(uint64_t addr, uint64_t size)
{
    uint64_t span = size ? size - 1 : 0;

    return span > UINT64_MAX - addr ? UINT64_MAX : addr + span;
}

/* Put the range of an event's block in. One that overlaps is noted and left out. */
static bool place(struct check *c, const struct mt_event *e, uint64_t ordinal, bool shown)
{
    uint64_t last = last_of(e->addr, e->size);
    bool clear = intervals_overlap(&c->ranges, e->addr, last) == INTERVALS_NONE;

    expect(c, clear, CHECK_OVERLAP, e);
    c->blocks[e->slot] =
        (struct check_block){e->handle, e->addr, e->size, ordinal, .live = true, .shown = shown};
    return !clear || intervals_add(&c->ranges, e->slot, e->addr, last);
}

static bool on_new(struct check *c, const struct mt_event *e)
{
    struct check_block *before;

    if (!array_grow(&c->blocks, &c->room, (size_t)e->slot + 1, sizeof *c->blocks))
        return false;
    before = &c->blocks[e->slot];
    expect(c, e->handle == c->next_handle, CHECK_HANDLE, e);
    expect(c, !before->live, CHECK_SLOT, e);
    c->next_handle = e->handle + 1;
    c->live += c->shows - (before->live && before->shown);
    intervals_remove(&c->ranges, e->slot);
    return place(c, e, c->ordinals++, c->shows);
}

static void on_free(struct check *c, const struct mt_event *e)
{
    struct check_block *block = block_of(c, e);

    if (!block)
        return;
    expect(c, block->addr == e->addr && block->size == e->size, CHECK_PLACE, e);
    intervals_remove(&c->ranges, e->slot);
    block->live = false;
    c->live -= block->shown;
}

static bool on_resize(struct check *c, const struct mt_event *e)
{
    struct check_block *block = block_of(c, e);
    uint64_t ordinal = c->ordinals++;

    if (!block)
        return true;
    expect(c, block->addr == e->old_addr && block->size == e->old_size, CHECK_PLACE, e);
    intervals_remove(&c->ranges, e->slot);
    return place(c, e, ordinal, block->shown);
}

static void on_access(struct check *c, const struct mt_event *e)
{
    struct check_block *block = block_of(c, e);

    if (!block)
        return;
    expect(c, e->offset < block->size && e->addr - block->addr == e->offset, CHECK_INSIDE, e);
    if (e->offset < block->size && e->size > block->size - e->offset)
        note(c, &c->crossing, e);
}

static bool ids_known(const struct check_ids *ids, const struct mt_event *e)
{
    switch (e->kind) {
    case MT_NEW:
    case MT_FREE:
    case MT_RESIZE:
        return e->ref < ids->stacks && e->heap < ids->heaps;
    case MT_LOAD:
    case MT_STORE:
    case MT_MODIFY:
        return e->ref < ids->sites;
    default:
        return true;
    }
}

static bool on_event(struct check *c, const struct mt_event *e)
{
    switch (e->kind) {
    case MT_NEW:
        return on_new(c, e);
    case MT_RESIZE:
        return on_resize(c, e);
    case MT_FREE:
        on_free(c, e);
        return true;
    case MT_LOAD:
    case MT_STORE:
    case MT_MODIFY:
        on_access(c, e);
        return true;
    default:
        expect(c, e->kind < MT_KINDS, CHECK_KIND, e);
        return true;
    }
}

bool check_enter(struct check *c, const struct mt_live_block *live, bool shown)
{
    struct mt_event e = {.addr = live->addr, .size = live->size, .handle = live->handle, .slot = live->slot};

    c->live += shown;
    return array_grow(&c->blocks, &c->room, (size_t)live->slot + 1, sizeof *c->blocks) &&
           place(c, &e, CHECK_BEFORE, shown);
}

/* Count an event of those that may be shown. */
static void count(struct check *c, const struct mt_event *e)
{
    c->n_shown += c->shows;
    if (c->shows && e->kind < MT_KINDS)
        c->events[e->kind]++;
}

bool check_feed(struct check *c, struct check_ids ids, const struct mt_event *events,
                const struct mt_event *shown, size_t n)
{
    if (n && !c->began)
        c->first_time = events[0].time;
    c->began = c->began || n;
    for (size_t i = 0; i < n; i++, c->n_events += shown != NULL) {
        const struct mt_event *e = &events[i];

        c->shows = shown && shown[i].kind == e->kind;
        expect(c, e->time >= c->time, CHECK_TIME, e);
        expect(c, ids_known(&ids, e), CHECK_ID, e);
        c->time = e->time;
        count(c, e);
        if (!on_event(c, e))
            return false;
    }
    return true;
}
