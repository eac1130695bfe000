/* thread.c - one thread of a replay on threads.
 *
 * The order of the file is a possible order of all operations. The earliest operation that is not done can therefore
 * always be done, and there is no deadlock. A waiting thread first polls, then yields the processor, then sleeps,
 * because there may be more threads than processors.
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

static bool fail(struct thread_group *g, const char *text)
{
    snprintf(g->e->shared->text, sizeof g->e->shared->text, "%s", text);
    return false;
}

/* The runs of the plan's file, as a copy that can be changed. */
static struct run *map_runs(const struct schedule_facts *f)
{
    long p = raw_syscall(SYS_mmap, 0, (long)(f->runs * sizeof(struct run)), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_POPULATE, PLAN_FD, (long)f->runs_at);
    return raw_failed(p) ? NULL : (struct run *)p;
}

/* Give the runs of all threads to so many workers. Each does its runs in the order of the file. */
static void fold_runs(struct run *runs, uint32_t count, uint32_t workers)
{
    uint32_t next[THREADS_MOST];
    for (uint32_t i = 0; i < workers; i++)
        next[i] = NO_RUN;
    for (uint32_t i = count; i-- > 0;) {
        uint32_t worker = runs[i].thread % workers;
        runs[i].thread = worker;
        runs[i].next = next[worker];
        next[worker] = i;
    }
}

/* Give each step its turn on its block. */
static void number_steps(struct thread_group *g)
{
    const struct step *steps = g->e->steps;
    uint64_t count = g->e->shared->job.facts.steps;
    for (uint64_t i = 0; i < count; i += step_is_double(steps[i]) ? 2 : 1)
        if ((steps[i].what & STEP_MASK) != STEP_COMPACT)
            g->turn[i] = g->cells[steps[i].slot].planned++;
}

static void make_threads(struct thread_group *g)
{
    for (uint32_t i = g->e->shared->job.facts.schedule.runs; i-- > 0;) {
        struct thread *t = &g->threads[g->runs[i].thread];
        t->group = g;
        t->engine = *g->e;
        t->first = i; /* the earliest one is kept */
        counter_set(&t->op, g->runs[i].op);
    }
}

bool thread_group_open(struct thread_group *g, struct engine *e)
{
    const struct plan_facts *f = &e->shared->job.facts;
    uint32_t threads = f->schedule.threads, workers = e->shared->job.workers;
    *g = (struct thread_group){.e = e,
                               .count = workers && workers < threads ? workers : threads,
                               .failed_op = UINT64_MAX,
                               .cut = barrier_first(&e->shared->job)};
    if (g->count == 0 || g->count > THREADS_MOST)
        return fail(g, "replay on threads needs an ops file with 1 to 1024 of them");
    pthread_mutex_init(&g->barrier, NULL);
    pthread_cond_init(&g->moved_on, NULL);
    g->serial = !(e->driver->flags & STEVE_THREADS);
    g->runs = map_runs(&f->schedule);
    g->turn = engine_table(f->steps * sizeof *g->turn);
    g->cells = engine_table(f->slots * sizeof *g->cells);
    g->threads = engine_table(g->count * sizeof *g->threads);
    if (!g->runs || !g->turn || !g->cells || !g->threads)
        return fail(g, "out of memory for the replay's own tables");
    if (g->count < threads)
        fold_runs(g->runs, f->schedule.runs, g->count);
    number_steps(g);
    make_threads(g);
    return true;
}

/* Sleep. The longer a thread has waited, the longer it sleeps, so that hundreds of waiting threads leave the
 * processors to the threads they wait for. */
static void take_nap(unsigned n)
{
    unsigned doubled = n / NAPS < MOST_DOUBLED ? n / NAPS : MOST_DOUBLED;
    const struct timespec nap = {0, (long)NAP << doubled};
    nanosleep(&nap, NULL);
}

/* Wait after the n-th unsuccessful poll. */
static void pause_after(struct thread *t, unsigned n)
{
    if (n < LOOKS) {
        _mm_pause();
    } else if (n < LOOKS + YIELDS) {
        sched_yield();
    } else {
        take_nap(n - LOOKS - YIELDS);
        t->naps++;
    }
}

void thread_await_start(struct thread *t)
{
    for (unsigned n = 0; !atomic_load(&t->group->go); n++)
        pause_after(t, n);
}

static void set_waits(struct thread *t, bool waits)
{
    atomic_store_explicit(&t->waits, waits, memory_order_relaxed);
}

static __attribute__((noinline)) bool wait_at_barrier(struct thread *t)
{
    set_waits(t, true);
    bool goes_on = barrier_wait(t);
    set_waits(t, false);
    return goes_on;
}

static uint64_t begin_wait(struct thread *t)
{
    set_waits(t, true);
    return clock_ticks();
}

static void end_wait(struct thread *t, struct waits *w, uint64_t from)
{
    w->count++;
    w->ticks += clock_ticks() - from;
    set_waits(t, false);
}

static __attribute__((noinline)) bool await_turn(struct thread *t, const struct cell *c, uint32_t turn)
{
    uint64_t from = begin_wait(t);
    for (unsigned n = 0; atomic_load_explicit(&c->turn, memory_order_acquire) != turn; n++) {
        if (atomic_load_explicit(&t->group->stop, memory_order_relaxed))
            return false;
        pause_after(t, n);
    }
    end_wait(t, &t->for_turn, from);
    return true;
}

static __attribute__((noinline)) void await_lock(struct thread *t)
{
    uint64_t from = begin_wait(t);
    for (unsigned n = 0; atomic_exchange_explicit(&t->group->held, true, memory_order_acquire); n++)
        pause_after(t, n);
    end_wait(t, &t->for_lock, from);
}

static inline void enter(struct thread *t)
{
    if (t->group->serial && atomic_exchange_explicit(&t->group->held, true, memory_order_acquire))
        await_lock(t);
}

static inline void leave(struct thread *t)
{
    if (t->group->serial)
        atomic_store_explicit(&t->group->held, false, memory_order_release);
}

static void set_lock(struct thread_group *g, struct cell *c, bool lock)
{
    const struct steve_driver *d = g->e->driver;
    if (c->locked == lock)
        return;
    c->locked = lock;
    if (lock && d->lock)
        d->lock(c->ref);
    if (!lock && d->unlock)
        d->unlock(c->ref);
}

/* With --check: fill a block, or check whether it still has the pattern. On malloc of the process: write to it, since
 * the resident memory is measured. */
static bool fill(struct thread *t, const struct cell *c, uint32_t id)
{
    struct engine *e = &t->engine;
    const struct block b = {.ref = c->ref, .size = c->size, .id = id};
    bool is_written = e->shared->job.check || e->shared->job.kind == JOB_SYSTEM;
    return !is_written || guard_made(e->shared, e->driver, &b, engine_address(e, &b));
}

static bool is_kept(struct thread *t, const struct cell *c, uint32_t id, uint64_t bytes)
{
    struct engine *e = &t->engine;
    const struct block b = {.ref = c->ref, .size = c->size, .id = id};
    return !e->shared->job.check || guard_kept(e->shared, &b, engine_address(e, &b), bytes);
}

static enum outcome make(struct thread *t, struct cell *c, uint64_t size, uint32_t id)
{
    const struct steve_driver *d = t->group->e->driver;
    c->ref = d->malloc(size + !size, id);
    if (!c->ref && d->compact)
        c->ref = engine_malloc(&t->engine, size, id);
    c->size = size;
    c->locked = false;
    if (!c->ref)
        return NO_ROOM;
    c->maker = t;
    t->bytes += size;
    t->made += size;
    return fill(t, c, id) ? GOES_ON : FAILED;
}

static enum outcome drop(struct thread *t, struct cell *c, uint32_t id)
{
    if (!is_kept(t, c, id, c->size))
        return FAILED;
    t->bytes -= c->size;
    t->remote_frees += c->maker != t;
    t->group->e->driver->free(c->ref, id);
    c->ref = NULL;
    return GOES_ON;
}

/* Resize an unlocked block; NULL if there is no room. */
static void *resized(struct engine *e, const struct cell *c, uint64_t size, uint32_t id)
{
    const struct steve_driver *d = e->driver;
    void *ref = d->realloc ? d->realloc(c->ref, size + !size, id) : NULL;
    return ref || (d->realloc && !d->compact) ? ref : engine_resize(e, c->ref, c->size, size, id);
}

/* Unlock a locked block before a resize. */
static enum outcome resize(struct thread *t, struct cell *c, uint64_t size, uint32_t id)
{
    bool locked = c->locked;
    uint64_t old = c->size;
    set_lock(t->group, c, false);
    void *ref = resized(&t->engine, c, size, id);
    if (!ref)
        return NO_ROOM;
    t->bytes += size - old;
    t->made += size;
    c->ref = ref;
    c->size = size;
    if (!is_kept(t, c, id, old < size ? old : size) || !fill(t, c, id))
        return FAILED;
    set_lock(t->group, c, locked);
    return GOES_ON;
}

static inline enum outcome call(struct thread *t, struct cell *c, struct step s, const struct step **at)
{
    struct engine *e = &t->engine;
    switch (s.what & STEP_MASK) {
    case STEP_NEW:
        return make(t, c, step_size(s, at), s.slot);
    case STEP_FREE:
        return drop(t, c, s.slot);
    case STEP_RESIZE:
        return resize(t, c, step_size(s, at), s.slot);
    case STEP_COMPACT:
        engine_make_room(e, 0);
        return GOES_ON;
    case STEP_READ:
    case STEP_WRITE:
        engine_use(e, c->ref, step_offset(at), s);
        return GOES_ON;
    default:
        set_lock(t->group, c, (s.what & STEP_MASK) == STEP_LOCK);
        return GOES_ON;
    }
}

/* End the replay because of a failure. The earliest failed operation is kept. */
static bool give_up(struct thread *t, enum outcome o)
{
    uint_fast64_t none = UINT64_MAX;
    if (atomic_compare_exchange_strong(&t->group->failed_op, &none, counter_get(&t->op)))
        t->group->failure = o;
    barrier_end(t->group);
    return false;
}

/* Do one step, waiting for its turn. False if the replay ends. */
static inline bool do_step(struct thread *t, const struct step **at)
{
    struct thread_group *g = t->group;
    const struct step s = **at;
    uint32_t code = s.what & STEP_MASK, turn = g->turn[*at - g->e->steps];
    struct cell *c = &g->cells[s.slot];
    bool own = code != STEP_COMPACT;
    if (counter_get(&t->op) >= counter_get(&g->cut) && !wait_at_barrier(t))
        return false;
    if (own && atomic_load_explicit(&c->turn, memory_order_acquire) != turn && !await_turn(t, c, turn))
        return false;
    ++*at;
    enter(t);
    enum outcome o = call(t, c, s, at);
    leave(t);
    if (o != GOES_ON)
        return give_up(t, o);
    if (own)
        atomic_store_explicit(&c->turn, turn + 1, memory_order_release);
    t->counts[code]++;
    counter_set(&t->op, counter_get(&t->op) + (code <= STEP_RESIZE));
    counter_set(&t->ops, counter_get(&t->ops) + 1);
    return true;
}

static bool do_run(struct thread *t, uint32_t i)
{
    const struct thread_group *g = t->group;
    const struct plan_facts *f = &g->e->shared->job.facts;
    uint64_t end = i + 1 < f->schedule.runs ? g->runs[i + 1].step : f->steps;
    const struct step *at = g->e->steps + g->runs[i].step,
                      *last = g->e->steps + (end < f->steps ? end : f->steps);
    counter_set(&t->op, g->runs[i].op);
    while (at < last)
        if (!do_step(t, &at))
            return false;
    return true;
}

void thread_work(struct thread *t)
{
    const struct thread_group *g = t->group;
    for (uint32_t i = t->first; i != NO_RUN && do_run(t, i);)
        i = g->runs[i].next;
}
