/* gc_time.c - instructions that Lua's garbage collectors execute, over the run; see gc_time.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/accesses/gc_time.h"

#include "memtrace/base/array.h"
#include "steve/kernels/base/batch_walk.h"

#include <stdlib.h>
#include <string.h>

bool gc_time_init(struct gc_time *g)
{
    *g = (struct gc_time){.width = 1};
    g->last = calloc(UINT16_MAX + 1, sizeof *g->last);
    g->now = calloc(UINT16_MAX + 1, sizeof *g->now);
    return g->last && g->now;
}

void gc_time_free(struct gc_time *g)
{
    free(g->before);
    free(g->last);
    free(g->now);
}

/* Have bins up to that of an operation. */
static void reach(struct gc_time *g, uint64_t operation)
{
    while (operation / g->width >= GC_TIME_BINS) {
        for (unsigned i = 0; i < GC_TIME_BINS / 2; i++)
            g->bins[i] = g->bins[2 * i] + g->bins[2 * i + 1];
        memset(g->bins + GC_TIME_BINS / 2, 0, sizeof g->bins / 2);
        g->width *= 2;
    }
}

void gc_time_begin_shard(struct gc_time *g, uint64_t operations, uint64_t total)
{
    g->part = true;
    g->operations = operations;
    reach(g, total);
    memset(g->now, GC_TIME_BEFORE, UINT16_MAX + 1);
}

void gc_time_add(struct gc_time *g, uint64_t operation, uint64_t time)
{
    reach(g, operation);
    g->bins[operation / g->width] += time;
}

static bool add_before(struct gc_time *g, uint64_t time)
{
    const uint64_t bin = g->operations / g->width;
    const uint32_t last = g->last[g->thread];

    if (last && g->before[last - 1].bin == bin) {
        g->before[last - 1].time += time;
        return true;
    }
    if (!array_grow(&g->before, &g->room, g->n + 1, sizeof *g->before))
        return false;
    g->before[g->n++] = (struct gc_time_row){g->thread, bin, time};
    g->last[g->thread] = (uint32_t)g->n;
    return true;
}

/* The time up to an event belongs to the thread that ran before it. */
static bool pass_time(struct gc_time *g, uint64_t time)
{
    const uint64_t passed = time > g->time ? time - g->time : 0;

    g->time += passed;
    if (passed && g->now[g->thread] == GC_TIME_COLLECTS)
        gc_time_add(g, g->operations, passed);
    return !passed || g->now[g->thread] != GC_TIME_BEFORE || add_before(g, passed);
}

/* A thread runs. */
static bool run(struct gc_time *g, uint16_t thread, uint64_t time)
{
    if (!g->began) {
        g->began = true;
        g->thread = thread;
        g->first_time = time;
        g->first_operations = g->operations;
        g->time = g->part ? time : 0;
    }
    if (!pass_time(g, time))
        return false;
    g->thread = thread;
    return true;
}

static bool take_events(struct gc_time *g, const struct mt_batch *batch, const struct mt_event *events,
                        size_t n)
{
    (void)batch;
    for (const struct mt_event *e = events; e < events + n; e++) {
        if (e->kind >= MT_KINDS)
            continue;
        if (!run(g, e->thread, e->time))
            return false;
        if (e->kind == MT_STATE)
            g->now[e->thread] = e->how == MT_VM_GC ? GC_TIME_COLLECTS : GC_TIME_OTHER;
        g->operations += e->kind <= MT_MODIFY;
    }
    return true;
}

static bool take_segment(struct gc_time *g, const struct mt_batch *batch, const struct mt_step *step,
                         const struct mt_place *places)
{
    const bool ok = run(g, step->thread, step->time);

    (void)batch, (void)places;
    g->operations += step->count;
    return ok;
}

BATCH_WALK(gc_time, take_events, take_segment)

bool gc_time_feed(struct gc_time *g, const struct mt_batch *batch)
{
    return gc_time_walk(g, batch);
}

bool gc_time_finish(struct gc_time *g, uint64_t time)
{
    reach(g, g->operations);
    return pass_time(g, time);
}
