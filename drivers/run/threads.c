/* threads.c - the replay on real threads.
 *
 * The first thread starts the others and watches their progress, so that a message about a hang can name the
 * operation. Their stacks come from raw_syscalls, so that the allocator does not see them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/run/threads.h"
#include "drivers/base/clock.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/run/barrier.h"
#include "drivers/run/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

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
    atomic_store(&t->done, true);
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

static void join_all(struct thread_group *g)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->threads[i].started)
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

void threads_run(struct engine *e)
{
    struct thread_group g;
    e->shared->status = STATUS_FAILED;
    if (!thread_group_open(&g, e))
        return;
    watch_crashes(e->shared);
    e->shared->status = STATUS_RUNNING;
    bool good = start_all(&g);
    uint64_t from = clock_wall();
    atomic_store(&g.go, true);
    if (good)
        watch(&g);
    join_all(&g);
    if (good)
        finish(&g, from);
    else
        e->shared->status = STATUS_FAILED;
}
