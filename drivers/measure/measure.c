/* measure.c - measures the heap at each data point.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/measure/measure.h"
#include "drivers/heap/outside_heap.h"
#include "drivers/heap/region.h"
#include "drivers/measure/probe.h"
#include "drivers/run/audit.h"
#include "drivers/run/guard.h"
#include "drivers/run/pace.h"

#include <stdio.h>
#include <string.h>

/* A replay looks at the number of resident bytes so many times, and also when the live or mapped bytes have grown by one
 * of FINE_LOOKS parts beyond those of all looks. */
enum { LOOKS = 256, FINE_LOOKS = 64 };

struct measure {
    struct engine *e;
    struct probe probes[PROBE_WAYS];
    /* data point whose largest block is being searched, by way; NULL: none */
    struct point *probed[PROBE_WAYS];
    unsigned way; /* next way to use; if it is busy, its search is the oldest one */
    uint64_t used, usable, headers, locked, blocks;
    uint64_t asked;                  /* bytes of the News since the last data point */
    uint64_t hint;                   /* largest block according to the allocator */
    uint64_t seen_used, seen_mapped; /* the most bytes, live and mapped, at a look at the resident bytes */
    uint64_t begun;                  /* wall time */
    struct audit audit;
};

static uint64_t usable_of(const struct measure *m, const struct block *b)
{
    return m->e->driver->usable ? m->e->driver->usable(b->ref) : b->size;
}

static uint64_t header_of(const struct measure *m, const struct block *b)
{
    return m->e->driver->header ? m->e->driver->header(b->ref) : 0;
}

/* Extend the range of the heap that has had blocks. */
static void note_reach(const struct measure *m, const struct block *b, const char *address)
{
    struct shared *shared = m->e->shared;
    if (!address || !region_holds(address, b->size))
        return;
    uint64_t at = region_offset(address);
    if (at < shared->lowest_block || shared->highest_block == 0)
        shared->lowest_block = at;
    if (at + b->size > shared->highest_block)
        shared->highest_block = at + b->size;
    if (m->e->driver->flags & STEVE_MOVES) /* they move to where no block was allocated */
        shared->islands = (struct islands){1, {{shared->lowest_block, shared->highest_block}}};
    else
        islands_add(&shared->islands, at, at + b->size);
}

static bool made(void *ctx, struct block *b, void *address)
{
    struct measure *m = ctx;
    m->used += b->size;
    m->usable += usable_of(m, b);
    m->headers += header_of(m, b);
    m->blocks++;
    note_reach(m, b, address);
    return guard_made(m->e->shared, m->e->driver, b, address) && audit_made(&m->audit, b, address);
}

static bool freeing(void *ctx, const struct block *b, void *address)
{
    struct measure *m = ctx;
    m->used -= b->size;
    m->usable -= usable_of(m, b);
    m->headers -= header_of(m, b);
    m->blocks--;
    if (b->fixed)
        m->locked -= b->size;
    return guard_kept(m->e->shared, b, address, b->size) && audit_gone(&m->audit, b, address);
}

static bool kept(void *ctx, const struct block *b, void *address, uint64_t bytes)
{
    struct measure *m = ctx;
    bool inside = region_holds(address, bytes) || m->e->driver->confinement == STEVE_NOT_CONFINED;
    /* made() reports blocks outside of the heap */
    return !address || !inside || guard_kept(m->e->shared, b, address, bytes);
}

static void locked(void *ctx, const struct block *b, bool on)
{
    struct measure *m = ctx;
    m->locked += on ? b->size : -b->size;
}

static void fill_free(struct measure *m, struct point *p)
{
    struct steve_walk walk = {0};
    uint64_t heap = m->e->shared->job.heap, room = heap > m->used ? heap - m->used : 0;
    p->chunks = UINT64_MAX;
    if (m->e->driver->walk && m->e->driver->walk(&walk)) {
        p->free = walk.free;
        p->chunks = walk.chunks;
        m->hint = walk.largest;
        p->overhead = room > p->free ? room - p->free : 0;
        return;
    }
    p->overhead = m->usable - m->used < room ? m->usable - m->used : room;
    p->free = room - p->overhead;
}

static void fill_pages(const struct measure *m, struct point *p)
{
    bool maps = m->e->driver->confinement != STEVE_IN_HEAP;
    p->highest = region_extent(m->e->driver);
    p->committed = maps ? region_committed() : p->highest;
    p->resident = region_resident();
}

/* Wait for the search in a way. Meanwhile, shared memory and op index are set to those of its data point. They
 * stay so, and the result is false, if the allocator crashed. */
static bool take_largest(struct measure *m, unsigned way)
{
    struct shared *b = m->e->shared;
    struct point *p = m->probed[way];
    uint64_t op_index = b->op_index;
    if (!p)
        return true;
    m->probed[way] = NULL;
    b->op_index = p->op_index + 1;
    struct probe_result r = probe_end(&m->probes[way]);
    p->maxmem = r.largest;
    p->maxmem_time = r.nanoseconds;
    if (!r.crashed) {
        b->op_index = op_index;
        return true;
    }
    b->count = (uint64_t)(p - b->points);
    memset(m->probed, 0, sizeof m->probed); /* later points are dropped */
    snprintf(b->text, sizeof b->text, "the allocator crashed when asked for the largest block that fits");
    return false;
}

static bool look_for_largest(struct measure *m, struct point *p)
{
    unsigned way = m->way;
    if (!take_largest(m, way))
        return false;
    m->way = (way + 1) % PROBE_WAYS;
    m->probed[way] = p;
    probe_begin(&m->probes[way], m->hint);
    return true;
}

/* Wait for all searches when the replay has ended, the oldest first. */
static bool take_rest(struct measure *m)
{
    bool good = true;
    for (unsigned i = 0; good && i < PROBE_WAYS; i++)
        good = take_largest(m, (m->way + i) % PROBE_WAYS);
    return good;
}

/* Has a number of bytes grown so much beyond the most at all looks that the resident bytes may have grown, too? */
static bool is_higher(uint64_t now, uint64_t seen)
{
    return now > seen + seen / FINE_LOOKS;
}

/* Bytes of the heap that the allocator has from the system. */
static uint64_t mapped_now(const struct measure *m)
{
    const bool maps = m->e->driver->confinement != STEVE_IN_HEAP;
    return maps ? region_committed() : region_extent(m->e->driver);
}

/* Update the space at the moment of the most resident bytes. Returns these bytes now. */
static uint64_t look(struct measure *m, uint64_t mapped)
{
    struct shared *b = m->e->shared;
    const uint64_t now = region_resident();
    if (now > b->peak.resident)
        b->peak = (struct space_peak){now, mapped, m->used, m->usable, m->headers};
    return now;
}

/* Look at the space. Reading them takes time, so this is done now and then, when
 * the heap has grown, and at the live peak. `mapped`: bytes at this moment. */
static void note_peak(struct measure *m, uint64_t mapped)
{
    struct shared *b = m->e->shared;
    const uint64_t every = b->job.facts.steps / LOOKS + 1;
    const bool at_peak = m->used > m->seen_used && m->used >= b->job.facts.live_peak;
    if (m->e->ops % every != 0 && !at_peak && !is_higher(m->used, m->seen_used) &&
        !is_higher(mapped, m->seen_mapped))
        return;
    m->seen_used = m->used > m->seen_used ? m->used : m->seen_used;
    m->seen_mapped = mapped > m->seen_mapped ? mapped : m->seen_mapped;
    look(m, mapped);
}

static bool done(void *ctx, char op, uint64_t size)
{
    struct measure *m = ctx;
    struct shared *b = m->e->shared;
    b->allocated += op == 'F' ? 0 : size;
    m->asked += op == 'N' ? size : 0;
    uint64_t extent = region_extent(m->e->driver);
    if (extent > b->highest)
        b->highest = extent;
    uint64_t mapped = mapped_now(m);
    fragmentation_add(&b->fragmentation, op == 'N' ? size : 0, m->used, mapped);
    if (m->e->ops % (b->job.facts.steps / LOOKS + 1) == 0)
        pace_keep(m->e, m->begun);
    note_peak(m, mapped);
    if (!engine_at_point(m->e) || b->count == b->room)
        return true;
    struct point *p = &b->points[b->count];
    *p = (struct point){.op_index = m->e->ops - 1,
                        .op = op,
                        .size = size,
                        .used = m->used,
                        .locked = m->locked,
                        .blocks = m->blocks};
    fill_free(m, p);
    fill_pages(m, p);
    fragmentation_add(&b->in_memory, m->asked, m->used, p->resident);
    m->asked = 0;
    b->count++;
    return look_for_largest(m, p);
}

static bool open_probes(struct measure *m)
{
    struct shared *b = m->e->shared;
    bool good = true;
    for (unsigned i = 0; i < PROBE_WAYS; i++)
        good = good && probe_open(&m->probes[i], m->e->driver, b->job.heap, &b->heartbeat);
    return good;
}

void measure_run(struct engine *e)
{
    struct measure m = {.e = e};
    struct watcher w = {
        .ctx = &m, .made = made, .freeing = freeing, .kept = kept, .locked = locked, .done = done};
    if (!open_probes(&m) || !audit_open(&m.audit, e)) {
        snprintf(e->shared->text, sizeof e->shared->text, "out of memory for measuring");
        e->shared->status = STATUS_FAILED;
        return;
    }
    uint64_t outside = outside_heap_bytes();
    m.begun = clock_wall();
    e->shared->refusal.nth = e->shared->job.fail_nth;
    region_refuse(&e->shared->refusal);
    engine_watched(e, &w);
    region_refuse(NULL);
    e->shared->end_resident = look(&m, mapped_now(&m));
    uint64_t now = outside_heap_bytes();
    e->shared->outside = now > outside ? now - outside : 0;
    if (!take_rest(&m))
        e->shared->status = STATUS_FAILED;
    audit_end(&m.audit);
}
