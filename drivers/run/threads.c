/* threads.c - the replay on real threads.
 *
 * The first thread starts the others and watches their progress, so that a message about a hang can name the
 * operation. Their stacks come from raw_syscalls, so that the allocator does not see them.
 *
 * The order of the file is a possible order of all operations. The earliest operation that is not done can therefore
 * always be done, and there is no deadlock. A waiting thread first polls, then yields the processor, then sleeps,
 * because there may be more threads than processors.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/threads.h"
#include "drivers/base/clock.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"
#include "drivers/run/guard.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

enum { CACHE_LINE = 64 };

struct thread;

/* A block, in a cache line of its own, so that threads wait for the allocator and not for each other's tables. */
struct cell {
    _Alignas(CACHE_LINE) void *ref;
    uint64_t size;
    atomic_uint turn;           /* turn of the next step on it */
    uint32_t planned;           /* number of steps on it, while they are counted */
    const struct thread *maker; /* the thread that allocated it */
    bool locked;
};

struct waits {
    uint64_t count, ticks;
};

struct thread_group;

/* One thread of the replay. */
struct thread {
    _Alignas(CACHE_LINE) struct thread_group *group;
    struct engine engine;     /* a copy, so that functions store results for this thread only */
    uint32_t first;           /* first run */
    atomic_uint_fast64_t op;  /* number of the current operation in the file */
    atomic_uint_fast64_t ops; /* number of operations done by this thread */
    /* it waits for its turn, the lock or a barrier, and is not in the allocator */
    atomic_bool waits;
    atomic_uint_fast64_t reached;   /* barrier at which it waits; 0 = none yet */
    uint64_t counts[STEP_MASK + 1]; /* number of steps done, by code */
    uint64_t bytes; /* bytes allocated less freed; the sum over all threads is the live bytes */
    uint64_t made;  /* bytes allocated */
    uint64_t remote_frees;
    struct waits for_turn, for_lock;
    uint64_t naps; /* number of system calls made by waiting */
    uint64_t cpu, blocked, ended;
    atomic_bool done;
    bool started, stays;
    void *stack;
    pthread_t thread;
};

struct thread_group {
    struct engine *e;
    struct run *runs;
    uint32_t *turn; /* by step: number of earlier steps on its block */
    struct cell *cells;
    struct thread *threads;
    uint32_t count; /* number of threads */
    bool serial;    /* calls are made one at a time */
    atomic_bool go, stop;
    bool lets_stay; /* threads that work until near the end stay alive until `released` */
    bool released;
    pthread_mutex_t barrier; /* held by threads that wait for `moved_on`, or to be released */
    pthread_cond_t moved_on;
    atomic_uint_fast64_t cut;              /* next barrier: operations from this number on are not begun */
    atomic_uint_fast64_t failed_op;        /* UINT64_MAX = none */
    enum outcome failure;                  /* result of that operation */
    _Alignas(CACHE_LINE) atomic_bool held; /* the lock of serial calls */
};

/* Counters that one thread writes and others read. A value that is read late does no harm. */
static inline uint64_t counter_get(const atomic_uint_fast64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static inline void counter_set(atomic_uint_fast64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_relaxed);
}

/* Barriers, in a pass of its own (JOB_THREADS_SPACE): the heap that the threads share is measured at moments when all of
 * them wait. This is a separate pass, so that it does not slow down the timed passes. No thread begins an operation after the
 * next barrier until all threads have reached it. At a barrier, exactly the operations of the file up to there have
 * been done. The live bytes are therefore those of a replay on one thread, and the memory that the allocator uses for
 * them can be compared. Nothing is measured between barriers. The largest free block is not searched for, because a
 * forked child has one thread only, and the allocator may have locks that other threads held. */

enum { STACK = 2 << 20, LOOK = 1000000 /* nanoseconds between two polls */ };

static __thread struct thread *s_mine; /* of this thread; NULL: the first thread */
static struct shared *s_shared;

/* Store the number of the operation; the signal then has its default effect. */
static void on_crash(int signal)
{
    (void)signal;
    if (s_mine)
        s_shared->op_index = counter_get(&s_mine->op);
}

static void watch_crashes(struct shared *b)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};
    s_shared = b;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

static uint64_t given_up(void)
{
    struct rusage u;
    return getrusage(RUSAGE_THREAD, &u) == 0 ? (uint64_t)u.ru_nvcsw : 0;
}

enum { LOOKS = 200, YIELDS = 50 };
enum { NAP = 20000 /* nanoseconds */, NAPS = 8 /* of one length */, MOST_DOUBLED = 6 };

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

/* Wait until all threads are started. */
static void thread_await_start(struct thread *t)
{
    for (unsigned n = 0; !atomic_load(&t->group->go); n++)
        pause_after(t, n);
}

static void set_waits(struct thread *t, bool waits)
{
    atomic_store_explicit(&t->waits, waits, memory_order_relaxed);
}

/* Called by a thread that has reached the barrier: wait until all may continue. False if the replay ends. */
static bool barrier_wait(struct thread *t)
{
    struct thread_group *g = t->group;
    uint64_t cut, op = counter_get(&t->op);
    pthread_mutex_lock(&g->barrier);
    while (op >= (cut = counter_get(&g->cut)) && !atomic_load(&g->stop)) {
        atomic_store_explicit(&t->reached, cut, memory_order_release);
        pthread_cond_wait(&g->moved_on, &g->barrier);
    }
    pthread_mutex_unlock(&g->barrier);
    return !atomic_load(&g->stop);
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

static bool is_kept(struct thread *t, const struct cell *c, uint32_t id, uint64_t bytes)
{
    struct engine *e = &t->engine;
    const struct block b = {.ref = c->ref, .size = c->size, .id = id};
    return !e->shared->job.check || guard_kept(e->shared, &b, engine_address(e, &b), bytes);
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

/* End the replay: set `stop` and wake all waiting threads. */
static void barrier_end(struct thread_group *g)
{
    pthread_mutex_lock(&g->barrier);
    atomic_store(&g->stop, true);
    pthread_cond_broadcast(&g->moved_on);
    pthread_mutex_unlock(&g->barrier);
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

/* Do all steps of the thread. Ends early after a failure of any thread. */
static void thread_work(struct thread *t)
{
    const struct thread_group *g = t->group;
    for (uint32_t i = t->first; i != NO_RUN && do_run(t, i);)
        i = g->runs[i].next;
}

/* The number of operations, as counted in op. */
static uint64_t ops_in_file(const struct job *j)
{
    return j->facts.news + j->facts.frees + j->facts.resizes;
}

/* Does it work until near the end of the file? */
static bool works_to_the_end(const struct thread *t)
{
    uint64_t ops = ops_in_file(&t->group->e->shared->job);
    return counter_get(&t->op) >= ops - ops / LATE_PART;
}

/* Stay alive, as the threads of a server do, until the memory at the end has been measured. Many allocators keep memory
 * for each thread, and take it back when the thread ends. */
static void stay(struct thread *t)
{
    struct thread_group *g = t->group;
    pthread_mutex_lock(&g->barrier);
    while (!g->released)
        pthread_cond_wait(&g->moved_on, &g->barrier);
    pthread_mutex_unlock(&g->barrier);
}

static void release(struct thread_group *g)
{
    pthread_mutex_lock(&g->barrier);
    g->released = true;
    pthread_cond_broadcast(&g->moved_on);
    pthread_mutex_unlock(&g->barrier);
}

static void *live(void *argument)
{
    struct thread *t = argument;
    s_mine = t;
    thread_await_start(t);
    uint64_t cpu = clock_thread(), blocked = given_up();
    thread_work(t);
    t->cpu = clock_thread() - cpu;
    uint64_t gave_up = given_up() - blocked;
    t->blocked = gave_up > t->naps ? gave_up - t->naps : 0;
    t->ended = clock_wall();
    bool stays = t->group->lets_stay && works_to_the_end(t);
    if (stays)
        t->stays = true;
    atomic_store(&t->done, true);
    if (stays)
        stay(t);
    return NULL;
}

static bool start_thread(struct thread *t)
{
    pthread_attr_t attributes;
    t->stack = raw_map(STACK);
    if (!t->stack || pthread_attr_init(&attributes) != 0)
        return false;
    bool good = pthread_attr_setstack(&attributes, t->stack, STACK) == 0 &&
                pthread_create(&t->thread, &attributes, live, t) == 0;
    pthread_attr_destroy(&attributes);
    t->started = good;
    return good;
}

static bool start_all(struct thread_group *g)
{
    bool good = true;
    for (uint32_t i = 0; good && i < g->count; i++)
        good = start_thread(&g->threads[i]);
    if (good)
        return true;
    snprintf(g->e->shared->text, sizeof g->e->shared->text, "%u threads cannot be started", g->count);
    atomic_store(&g->stop, true);
    return false;
}

/* The earliest current operation of the threads in the allocator, or of the waiting threads. UINT64_MAX if there
 * is none. */
static uint64_t earliest(const struct thread_group *g, bool waits)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct thread *t = &g->threads[i];
        uint64_t op = counter_get(&t->op);
        if (!atomic_load(&t->done) && atomic_load(&t->waits) == waits && op < least)
            least = op;
    }
    return least;
}

static bool all_done(const struct thread_group *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (!atomic_load(&g->threads[i].done))
            return false;
    return true;
}

static uint64_t ops_done(const struct thread_group *g)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g->count; i++)
        sum += counter_get(&g->threads[i].ops);
    return sum;
}

/* Update the progress. A thread that hangs in the allocator may block others, which wait with earlier operations.
 * The operation is therefore that of a thread that is not waiting. False if all threads are finished. */
static bool look(const struct thread_group *g)
{
    g->e->shared->heartbeat = ops_done(g);
    if (all_done(g))
        return false;
    uint64_t in = earliest(g, false), op = in != UINT64_MAX ? in : earliest(g, true);
    if (op != UINT64_MAX)
        g->e->shared->op_index = op;
    return true;
}

/* Wait until threads have ended: those that stay, or the others. All of them are done. */
static void join_those(struct thread_group *g, bool stay)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->threads[i].started && g->threads[i].stays == stay)
            pthread_join(g->threads[i].thread, NULL);
}

static void add_up(const struct thread_group *g, struct threads_result *r)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const struct thread *t = &g->threads[i];
        r->cpu += t->cpu;
        r->cpu_most = t->cpu > r->cpu_most ? t->cpu : r->cpu_most;
        r->waits += t->for_turn.count;
        r->waited += clock_between(0, t->for_turn.ticks);
        r->lock_waits += t->for_lock.count;
        r->lock_waited += clock_between(0, t->for_lock.ticks);
        r->blocked += t->blocked;
        r->news += t->counts[STEP_NEW];
        r->frees += t->counts[STEP_FREE];
        r->resizes += t->counts[STEP_RESIZE];
        r->live_at_end += t->bytes;
        r->remote_frees += t->remote_frees;
    }
}

static void finish(struct thread_group *g, uint64_t from)
{
    struct shared *b = g->e->shared;
    uint64_t to = from, failed = atomic_load(&g->failed_op);
    for (uint32_t i = 0; i < g->count; i++)
        to = g->threads[i].ended > to ? g->threads[i].ended : to;
    b->threaded = (struct threads_result){.threads = g->count, .wall = to - from, .locked = g->serial};
    add_up(g, &b->threaded);
    b->op_index = failed == UINT64_MAX ? b->threaded.news + b->threaded.frees + b->threaded.resizes : failed;
    b->status = failed == UINT64_MAX ? STATUS_DONE : g->failure == NO_ROOM ? STATUS_NO_ROOM : STATUS_FAILED;
}

/* Do all threads that are not finished wait at the barrier? */
static bool barrier_reached(const struct thread_group *g)
{
    uint64_t cut = atomic_load_explicit(&g->cut, memory_order_relaxed);
    for (uint32_t i = 0; i < g->count; i++) {
        const struct thread *t = &g->threads[i];
        if (!atomic_load(&t->done) && atomic_load_explicit(&t->reached, memory_order_acquire) != cut)
            return false;
    }
    return true;
}

static uint64_t interval(const struct job *j)
{
    return ops_in_file(j) / BARRIERS + 1;
}

static uint64_t used_by(const struct steve_driver *d)
{
    return d->confinement == STEVE_IN_HEAP ? region_extent(d) : region_committed();
}

/* Measure, and let all threads continue to the next barrier. */
static void barrier_measure(struct thread_group *g)
{
    struct threads_space *s = &g->e->shared->threads_space;
    uint64_t live = 0, made = 0, resident = region_resident();
    for (uint32_t i = 0; i < g->count; i++) {
        live += g->threads[i].bytes;
        made += g->threads[i].made;
    }
    uint64_t used = used_by(g->e->driver);
    fragmentation_add(&s->fragmentation, made - s->made, live, resident);
    s->made = made;
    s->most_used = used > s->most_used ? used : s->most_used;
    s->most_resident = resident > s->most_resident ? resident : s->most_resident;
    s->barriers++;
    pthread_mutex_lock(&g->barrier);
    atomic_fetch_add_explicit(&g->cut, interval(&g->e->shared->job), memory_order_release);
    pthread_cond_broadcast(&g->moved_on);
    pthread_mutex_unlock(&g->barrier);
}

/* Wait until all threads are finished. */
static void watch(struct thread_group *g)
{
    const struct timespec pause = {0, LOOK};
    bool measures = g->e->shared->job.kind == JOB_THREADS_SPACE;
    while (look(g)) {
        if (measures && barrier_reached(g))
            barrier_measure(g);
        else
            nanosleep(&pause, NULL);
    }
    if (measures)
        barrier_measure(g);
}

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

/* The operation of the first barrier; UINT64_MAX in a pass without barriers. */
static uint64_t barrier_first(const struct job *j)
{
    return j->kind == JOB_THREADS_SPACE ? interval(j) : UINT64_MAX;
}

/* Number the steps and allocate the tables. On error returns false and sets the text in shared memory. */
static bool thread_group_open(struct thread_group *g, struct engine *e)
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

void threads_run(struct engine *e, const struct threads_events *events)
{
    struct thread_group g;
    e->shared->status = STATUS_FAILED;
    if (!thread_group_open(&g, e))
        return;
    watch_crashes(e->shared);
    e->shared->status = STATUS_RUNNING;
    bool good = start_all(&g);
    g.lets_stay = good && events;
    if (good && events)
        events->ready(events->ctx);
    uint64_t from = clock_wall();
    atomic_store(&g.go, true);
    if (good)
        watch(&g);
    join_those(&g, false);
    if (good && events)
        events->done(events->ctx);
    release(&g);
    join_those(&g, true);
    if (good)
        finish(&g, from);
    else
        e->shared->status = STATUS_FAILED;
}
