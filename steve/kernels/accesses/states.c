/* states.c - what happens while Lua's virtual machines are in each of their states; see states.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/accesses/states.h"

#include "memtrace/base/array.h"

bool states_init(struct states *s)
{
    memset(s, 0, sizeof *s);
    s->now = calloc(UINT16_MAX + 1, sizeof *s->now);
    if (!handle_map_init(&s->known) || !s->now || !array_grow(&s->rows, &s->room, 1, sizeof *s->rows))
        return false;
    s->rows[0].vm = MT_VMS;
    s->n = 1;
    return true;
}

void states_free(struct states *s)
{
    handle_map_free(&s->known);
    free(s->rows);
    free(s->now);
}

/* The row with a key, a new one like `empty` if it is the first; 0: out of memory. */
static uint32_t row_at(struct states *s, uint64_t key, const struct states_row *empty)
{
    uint32_t i = handle_map_find(&s->known, key);

    if (i != HANDLE_MAP_NONE)
        return i + 1;
    i = handle_map_add(&s->known, key);
    if (i == HANDLE_MAP_NONE || !array_grow(&s->rows, &s->room, (size_t)i + 2, sizeof *s->rows))
        return 0;
    s->rows[i + 1] = *empty;
    s->n = (size_t)i + 2;
    return i + 1;
}

/* The row of a state. */
static uint32_t row_of(struct states *s, const struct mt_event *e)
{
    uint32_t trace = e->how == MT_VM_TRACE ? e->ref : 0;
    struct states_row empty = {.heap = e->heap, .vm = e->how, .trace = trace};

    /* heaps are far fewer than 2^28 */
    return row_at(s, ((uint64_t)e->heap << 4 | e->how) << 32 | trace, &empty);
}

/* In a part: have a row for what a thread was in before. False when out of memory. */
static bool begin_thread(struct states *s, uint16_t thread)
{
    struct states_row empty = {.heap = thread, .vm = STATES_BEFORE};

    s->now[thread] = row_at(s, UINT64_MAX - thread, &empty);
    return s->now[thread] != 0;
}

static void time_begin(struct states *s, const struct mt_event *e)
{
    s->thread = e->thread;
    s->began = true;
    s->first_time = e->time;
    if (s->part)
        s->time = e->time;
}

static bool enter(struct states *s, const struct mt_event *e)
{
    uint32_t row = row_of(s, e);

    s->now[e->thread] = row;
    s->rows[row].entries += row != 0;
    return row != 0;
}

static void add_access(struct states_row *row, const struct mt_event *e)
{
    row->loads += e->kind == MT_LOAD;
    row->stores += e->kind == MT_STORE;
    row->modifies += e->kind == MT_MODIFY;
    row->bytes_read += e->kind != MT_STORE ? e->size : 0;
    row->bytes_written += e->kind != MT_LOAD ? e->size : 0;
}

static void add_heap_event(struct states_row *row, const struct mt_event *e)
{
    row->allocs += e->kind == MT_NEW;
    row->alloc_bytes += e->kind != MT_FREE ? e->size : 0;
    row->frees += e->kind == MT_FREE;
    row->free_bytes += e->kind == MT_FREE ? e->size : e->kind == MT_RESIZE ? e->old_size : 0;
}

/* The time up to an event goes to who ran last. */
static void pass_time(struct states *s, uint64_t time)
{
    s->rows[s->now[s->thread]].instructions += time - s->time;
    s->time = time;
}

bool states_feed(struct states *s, const struct mt_event *events, size_t n)
{
    if (n && !s->began)
        time_begin(s, &events[0]);
    for (size_t i = 0; i < n; i++) {
        const struct mt_event *e = &events[i];

        if (s->part && s->now[e->thread] == 0 && !begin_thread(s, e->thread))
            return false;
        pass_time(s, e->time);
        s->thread = e->thread;
        if (e->kind <= MT_RESIZE)
            add_heap_event(&s->rows[s->now[e->thread]], e);
        else if (e->kind <= MT_MODIFY)
            add_access(&s->rows[s->now[e->thread]], e);
        else if (e->kind == MT_STATE && !enter(s, e))
            return false;
    }
    return true;
}

void states_finish(struct states *s, uint64_t time)
{
    if (time > s->time)
        pass_time(s, time);
}
