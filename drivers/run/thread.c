/* thread.c - the operations of one thread of a team; see thread.h.
 *
 * The order of the file is an order in which all could be done one after the other, so the earliest step that
 * is not done can always be done: there is no deadlock. Who waits looks again and again for a moment, then
 * gives the processor away, then sleeps, since there may be more threads than processors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/thread.h"
#include "drivers/base/clock.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/run/barrier.h"
#include "drivers/run/guard.h"
#include "drivers/run/threads.h"

#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum { LOOKS = 200, YIELDS = 50 };
enum { NAP = 20000 /* nanoseconds */, NAPS = 8 /* of one length */, MOST_DOUBLED = 6 };

static bool fail(struct turns *t, const char *text)
{
    snprintf(t->e->shared->text, sizeof t->e->shared->text, "%s", text);
    return false;
}

static const struct run *map_runs(const struct schedule_facts *f)
{
    long p = sysmem_call(SYS_mmap, 0, (long)(f->runs * sizeof(struct run)), PROT_READ,
                         MAP_SHARED | MAP_POPULATE, PLAN_FD, (long)f->runs_at);
    return sysmem_failed(p) ? NULL : (const struct run *)p;
}

/* Give each step its turn. */
static void number_steps(struct turns *t)
{
    const struct step *steps = t->e->steps;
    uint64_t count = t->e->shared->job.facts.steps;
    for (uint64_t i = 0; i < count; i += step_is_double(steps[i]) ? 2 : 1)
        if ((steps[i].what & STEP_MASK) != STEP_COMPACT)
            t->turn[i] = t->cells[steps[i].slot].planned++;
}

static void make_lanes(struct turns *t)
{
    for (uint32_t i = t->e->shared->job.facts.schedule.runs; i-- > 0;) {
        struct lane *l = &t->lanes[t->runs[i].thread];
        l->all = t;
        l->engine = *t->e;
        l->first = i; /* the earliest stays */
        lane_set(&l->op, t->runs[i].op);
    }
}

bool turns_open(struct turns *t, struct engine *e)
{
    const struct plan_facts *f = &e->shared->job.facts;
    *t = (struct turns){
        .e = e, .count = f->schedule.threads, .failed_op = UINT64_MAX, .cut = halts_first(&e->shared->job)};
    if (t->count == 0 || t->count > TEAM_MOST)
        return fail(t, "replay on threads needs an ops file with 1 to 1024 of them");
    pthread_mutex_init(&t->halt, NULL);
    pthread_cond_init(&t->on, NULL);
    t->serial = !(e->driver->flags & STEVE_THREADS);
    t->runs = map_runs(&f->schedule);
    t->turn = engine_table(f->steps * sizeof *t->turn);
    t->cells = engine_table(f->slots * sizeof *t->cells);
    t->lanes = engine_table(t->count * sizeof *t->lanes);
    if (!t->runs || !t->turn || !t->cells || !t->lanes)
        return fail(t, "out of memory for the replay's own tables");
    number_steps(t);
    make_lanes(t);
    return true;
}

/* The longer it waited, the longer it sleeps: hundreds of threads that wait must leave the processors to
 * those they wait for. */
static void take_nap(unsigned n)
{
    unsigned doubled = n / NAPS < MOST_DOUBLED ? n / NAPS : MOST_DOUBLED;
    const struct timespec nap = {0, (long)NAP << doubled};
    nanosleep(&nap, NULL);
}

/* The n-th look was in vain. */
static void pause_after(struct lane *l, unsigned n)
{
    if (n < LOOKS) {
        _mm_pause();
    } else if (n < LOOKS + YIELDS) {
        sched_yield();
    } else {
        take_nap(n - LOOKS - YIELDS);
        l->naps++;
    }
}

void turns_await_start(struct lane *l)
{
    for (unsigned n = 0; !atomic_load(&l->all->go); n++)
        pause_after(l, n);
}

static void set_waits(struct lane *l, bool waits)
{
    atomic_store_explicit(&l->waits, waits, memory_order_relaxed);
}

static __attribute__((noinline)) bool halt(struct lane *l)
{
    set_waits(l, true);
    bool goes_on = halts_wait(l);
    set_waits(l, false);
    return goes_on;
}

static uint64_t begin_wait(struct lane *l)
{
    set_waits(l, true);
    return clock_ticks();
}

static void end_wait(struct lane *l, struct waits *w, uint64_t from)
{
    w->count++;
    w->ticks += clock_ticks() - from;
    set_waits(l, false);
}

static __attribute__((noinline)) bool await_turn(struct lane *l, const struct cell *c, uint32_t turn)
{
    uint64_t from = begin_wait(l);
    for (unsigned n = 0; atomic_load_explicit(&c->turn, memory_order_acquire) != turn; n++) {
        if (atomic_load_explicit(&l->all->stop, memory_order_relaxed))
            return false;
        pause_after(l, n);
    }
    end_wait(l, &l->for_turn, from);
    return true;
}

static __attribute__((noinline)) void await_lock(struct lane *l)
{
    uint64_t from = begin_wait(l);
    for (unsigned n = 0; atomic_exchange_explicit(&l->all->held, true, memory_order_acquire); n++)
        pause_after(l, n);
    end_wait(l, &l->for_lock, from);
}

static inline void enter(struct lane *l)
{
    if (l->all->serial && atomic_exchange_explicit(&l->all->held, true, memory_order_acquire))
        await_lock(l);
}

static inline void leave(struct lane *l)
{
    if (l->all->serial)
        atomic_store_explicit(&l->all->held, false, memory_order_release);
}

static void set_lock(struct turns *t, struct cell *c, bool lock)
{
    const struct steve_driver *d = t->e->driver;
    if (c->locked == lock)
        return;
    c->locked = lock;
    if (lock && d->lock)
        d->lock(c->ref);
    if (!lock && d->unlock)
        d->unlock(c->ref);
}

/* With --check: fill a block, or see whether it still holds what it was filled with. */
static bool fill(struct lane *l, const struct cell *c, uint32_t id)
{
    struct engine *e = &l->engine;
    const struct block b = {.ref = c->ref, .size = c->size, .id = id};
    return !e->shared->job.check || guard_made(e->shared, e->driver, &b, engine_address(e, &b));
}

static bool is_kept(struct lane *l, const struct cell *c, uint32_t id, uint64_t bytes)
{
    struct engine *e = &l->engine;
    const struct block b = {.ref = c->ref, .size = c->size, .id = id};
    return !e->shared->job.check || guard_kept(e->shared, &b, engine_address(e, &b), bytes);
}

static enum outcome make(struct lane *l, struct cell *c, uint64_t size, uint32_t id)
{
    const struct steve_driver *d = l->all->e->driver;
    c->ref = d->malloc(size + !size, id);
    if (!c->ref && d->compact)
        c->ref = engine_malloc(&l->engine, size, id);
    c->size = size;
    c->locked = false;
    if (!c->ref)
        return NO_ROOM;
    l->bytes += size;
    l->made += size;
    return fill(l, c, id) ? GOES_ON : FAILED;
}

static enum outcome drop(struct lane *l, struct cell *c, uint32_t id)
{
    if (!is_kept(l, c, id, c->size))
        return FAILED;
    l->bytes -= c->size;
    l->all->e->driver->free(c->ref, id);
    c->ref = NULL;
    return GOES_ON;
}

/* Resize an unlocked block; NULL: no room. */
static void *resized(struct engine *e, const struct cell *c, uint64_t size, uint32_t id)
{
    const struct steve_driver *d = e->driver;
    void *ref = d->realloc ? d->realloc(c->ref, size + !size, id) : NULL;
    return ref || (d->realloc && !d->compact) ? ref : engine_resize(e, c->ref, c->size, size, id);
}

/* A locked block is unlocked for the moment. */
static enum outcome resize(struct lane *l, struct cell *c, uint64_t size, uint32_t id)
{
    bool locked = c->locked;
    uint64_t old = c->size;
    set_lock(l->all, c, false);
    void *ref = resized(&l->engine, c, size, id);
    if (!ref)
        return NO_ROOM;
    l->bytes += size - old;
    l->made += size;
    c->ref = ref;
    c->size = size;
    if (!is_kept(l, c, id, old < size ? old : size) || !fill(l, c, id))
        return FAILED;
    set_lock(l->all, c, locked);
    return GOES_ON;
}

static inline enum outcome call(struct lane *l, struct cell *c, struct step s, const struct step **at)
{
    struct engine *e = &l->engine;
    switch (s.what & STEP_MASK) {
    case STEP_NEW:
        return make(l, c, step_size(s, at), s.slot);
    case STEP_FREE:
        return drop(l, c, s.slot);
    case STEP_RESIZE:
        return resize(l, c, step_size(s, at), s.slot);
    case STEP_COMPACT:
        engine_make_room(e, 0);
        return GOES_ON;
    case STEP_READ:
    case STEP_WRITE:
        engine_use(e, c->ref, step_offset(at), s);
        return GOES_ON;
    default:
        set_lock(l->all, c, (s.what & STEP_MASK) == STEP_LOCK);
        return GOES_ON;
    }
}

/* This is the end for all; the first such operation counts. */
static bool give_up(struct lane *l, enum outcome o)
{
    uint_fast64_t none = UINT64_MAX;
    if (atomic_compare_exchange_strong(&l->all->failed_op, &none, lane_get(&l->op)))
        l->all->failure = o;
    halts_end(l->all);
    return false;
}

/* One step and what belongs to it. False: this is the end of all. */
static inline bool do_step(struct lane *l, const struct step **at)
{
    struct turns *t = l->all;
    const struct step s = **at;
    uint32_t code = s.what & STEP_MASK, turn = t->turn[*at - t->e->steps];
    struct cell *c = &t->cells[s.slot];
    bool own = code != STEP_COMPACT;
    if (lane_get(&l->op) >= lane_get(&t->cut) && !halt(l))
        return false;
    if (own && atomic_load_explicit(&c->turn, memory_order_acquire) != turn && !await_turn(l, c, turn))
        return false;
    ++*at;
    enter(l);
    enum outcome o = call(l, c, s, at);
    leave(l);
    if (o != GOES_ON)
        return give_up(l, o);
    if (own)
        atomic_store_explicit(&c->turn, turn + 1, memory_order_release);
    l->counts[code]++;
    lane_set(&l->op, lane_get(&l->op) + (code <= STEP_RESIZE));
    lane_set(&l->ops, lane_get(&l->ops) + 1);
    return true;
}

static bool do_run(struct lane *l, uint32_t i)
{
    const struct turns *t = l->all;
    const struct plan_facts *f = &t->e->shared->job.facts;
    uint64_t end = i + 1 < f->schedule.runs ? t->runs[i + 1].step : f->steps;
    const struct step *at = t->e->steps + t->runs[i].step,
                      *last = t->e->steps + (end < f->steps ? end : f->steps);
    lane_set(&l->op, t->runs[i].op);
    while (at < last)
        if (!do_step(l, &at))
            return false;
    return true;
}

void turns_work(struct lane *l)
{
    const struct turns *t = l->all;
    for (uint32_t i = l->first; i != NO_RUN && do_run(l, i);)
        i = t->runs[i].next;
}
