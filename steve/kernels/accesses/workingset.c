/* workingset.c - how much memory a program touches in each window; see workingset.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/accesses/workingset.h"

#include "memtrace/base/array.h"
#include "steve/kernels/base/bits.h"
#include "steve/kernels/base/walk.h"

bool workingset_init(struct workingset *w, uint64_t length)
{
    memset(w, 0, sizeof *w);
    w->length = length;
    w->wanted = UINT64_MAX;
    w->last_page = UINT64_MAX;
    return handle_map_init(&w->map);
}

void workingset_begin(struct workingset *w, uint64_t live_bytes, uint64_t operations, uint64_t skip,
                      uint64_t wanted)
{
    w->live_bytes = live_bytes;
    w->now = operations;
    w->skip = skip;
    w->wanted = wanted;
    w->window.first = operations + skip;
}

bool workingset_is_done(const struct workingset *w)
{
    return w->n_windows >= w->wanted;
}

void workingset_free(struct workingset *w)
{
    handle_map_free(&w->map);
    free(w->pages);
    free(w->touched);
    free(w->windows);
}

/* The page with a number, clean if this window has not met it; NULL when out of memory. */
static struct workingset_page *page_at(struct workingset *w, uint64_t number)
{
    struct workingset_page *page;

    if (number != w->last_page) {
        w->last_index = handle_map_find(&w->map, number);
        if (w->last_index == HANDLE_MAP_NONE)
            w->last_index = handle_map_add(&w->map, number);
        if (w->last_index == HANDLE_MAP_NONE ||
            !array_grow(&w->pages, &w->pages_room, (size_t)w->last_index + 1, sizeof *w->pages))
            return NULL;
        w->last_page = number;
    }
    page = &w->pages[w->last_index];
    if (page->window != w->number + 1) {
        memset(page->bits, 0, sizeof page->bits);
        page->window = w->number + 1;
    }
    return page;
}

/* Bytes first to last of one line, within a page. */
static void touch_line(struct workingset *w, uint64_t *line, unsigned first, unsigned last)
{
    uint64_t mask =
        (last == 63 ? UINT64_MAX : ((uint64_t)1 << (last + 1)) - 1) & ~(((uint64_t)1 << first) - 1);

    w->window.lines += *line == 0;
    w->window.bytes += bits_count(mask & ~*line);
    *line |= mask;
}

static bool touch(struct workingset *w, uint64_t addr, uint64_t size)
{
    uint64_t last = addr + size - 1;

    for (uint64_t line = addr / 64; line <= last / 64; line++) {
        struct workingset_page *page = page_at(w, line / (WORKINGSET_PAGE / 64));

        if (!page)
            return false;
        touch_line(w, &page->bits[line % (WORKINGSET_PAGE / 64)], line == addr / 64 ? addr % 64 : 0,
                   line == last / 64 ? last % 64 : 63);
    }
    return true;
}

static bool block_access(struct workingset *w, const struct mt_event *e)
{
    if (!array_grow(&w->touched, &w->touched_room, (size_t)e->slot + 1, sizeof *w->touched))
        return false;
    w->window.blocks += w->touched[e->slot] != w->number + 1;
    w->touched[e->slot] = w->number + 1;
    w->window.accesses++;
    return e->size == 0 || touch(w, e->addr, e->size);
}

static bool end_window(struct workingset *w)
{
    if (!array_grow(&w->windows, &w->windows_room, w->n_windows + 1, sizeof *w->windows))
        return false;
    w->window.live_bytes = w->live_bytes;
    w->windows[w->n_windows++] = w->window;
    w->window = (struct workingset_window){.first = w->now};
    w->number++;
    return true;
}

/* A block that is made in the slot of a dead one is another block. */
static bool block_new(struct workingset *w, const struct mt_event *e)
{
    if (e->slot < w->touched_room)
        w->touched[e->slot] = 0;
    w->live_bytes += e->container ? 0 : e->size;
    return true;
}

static void change_live(struct workingset *w, const struct mt_event *e)
{
    if (e->container)
        return;
    if (e->kind == MT_FREE)
        w->live_bytes -= e->size;
    else if (e->kind == MT_RESIZE)
        w->live_bytes += e->size - e->old_size;
}

/* An operation before the first window: only what lives counts. */
static bool is_skipped(struct workingset *w, const struct mt_event *e)
{
    if (w->skip == 0)
        return false;
    w->skip--;
    w->now++;
    if (e->kind == MT_NEW)
        w->live_bytes += e->container ? 0 : e->size;
    else
        change_live(w, e);
    return true;
}

static bool step(struct workingset *w, const struct mt_event *e)
{
    if (walk_is_access(e))
        return block_access(w, e);
    if (e->kind == MT_NEW)
        return block_new(w, e);
    change_live(w, e);
    return true;
}

bool workingset_feed(struct workingset *w, const struct mt_event *events, size_t n)
{
    for (size_t i = 0; i < n && !workingset_is_done(w); i++) {
        if (!walk_is_operation(&events[i]) || is_skipped(w, &events[i]))
            continue;
        w->window.time = events[i].time;
        if (!step(w, &events[i]))
            return false;
        w->now++;
        if (++w->window.operations == w->length && !end_window(w))
            return false;
    }
    return true;
}

bool workingset_finish(struct workingset *w)
{
    return w->window.operations == 0 || workingset_is_done(w) || end_window(w);
}
