/* threads.c - the replay on real threads; see threads.h.
 *
 * The first thread only starts the others and watches how far they are, so that a hang can be told where it
 * is. Stacks come from sysmem: they are not the allocator's business.
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

enum { STACK = 2 << 20, LOOK = 1000000 /* nanoseconds between two looks */ };

static __thread struct lane *s_mine; /* of this thread; NULL: the first one */
static struct shared *s_shared;

/* Say which operation it was; the signal then does what it always does. */
static void on_crash(int signal)
{
    (void)signal;
    if (s_mine)
        s_shared->op_index = lane_get(&s_mine->op);
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
    struct lane *l = argument;
    s_mine = l;
    turns_await_start(l);
    uint64_t cpu = clock_thread(), blocked = given_up();
    turns_work(l);
    l->cpu = clock_thread() - cpu;
    uint64_t gave_up = given_up() - blocked;
    l->blocked = gave_up > l->naps ? gave_up - l->naps : 0;
    l->ended = clock_wall();
    atomic_store(&l->done, true);
    return NULL;
}

static bool start_lane(struct lane *l)
{
    pthread_attr_t attributes;
    l->stack = sysmem_get(STACK);
    if (!l->stack || pthread_attr_init(&attributes) != 0)
        return false;
    bool good = pthread_attr_setstack(&attributes, l->stack, STACK) == 0 &&
                pthread_create(&l->thread, &attributes, live, l) == 0;
    pthread_attr_destroy(&attributes);
    l->started = good;
    return good;
}

static bool start_all(struct turns *t)
{
    bool good = true;
    for (uint32_t i = 0; good && i < t->count; i++)
        good = start_lane(&t->lanes[i]);
    if (good)
        return true;
    snprintf(t->e->shared->text, sizeof t->e->shared->text, "%u threads cannot be started", t->count);
    atomic_store(&t->stop, true);
    return false;
}

/* The earliest operation under way, of those in the allocator or of those that wait. UINT64_MAX: none. */
static uint64_t earliest(const struct turns *t, bool waits)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct lane *l = &t->lanes[i];
        uint64_t op = lane_get(&l->op);
        if (!atomic_load(&l->done) && atomic_load(&l->waits) == waits && op < least)
            least = op;
    }
    return least;
}

static bool all_done(const struct turns *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (!atomic_load(&t->lanes[i].done))
            return false;
    return true;
}

static uint64_t ops_done(const struct turns *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < t->count; i++)
        sum += lane_get(&t->lanes[i].ops);
    return sum;
}

/* How far it is. Who hangs in the allocator keeps the others waiting, with earlier operations as well: so the
 * place is that of a thread which waits for nobody. False: all are done. */
static bool look(const struct turns *t)
{
    t->e->shared->heartbeat = ops_done(t);
    if (all_done(t))
        return false;
    uint64_t in = earliest(t, false), op = in != UINT64_MAX ? in : earliest(t, true);
    if (op != UINT64_MAX)
        t->e->shared->op_index = op;
    return true;
}

static void join_all(struct turns *t)
{
    for (uint32_t i = 0; i < t->count; i++)
        if (t->lanes[i].started)
            pthread_join(t->lanes[i].thread, NULL);
}

static void add_up(const struct turns *t, struct team_result *r)
{
    for (uint32_t i = 0; i < t->count; i++) {
        const struct lane *l = &t->lanes[i];
        r->cpu += l->cpu;
        r->cpu_most = l->cpu > r->cpu_most ? l->cpu : r->cpu_most;
        r->waits += l->for_turn.count;
        r->waited += clock_between(0, l->for_turn.ticks);
        r->lock_waits += l->for_lock.count;
        r->lock_waited += clock_between(0, l->for_lock.ticks);
        r->blocked += l->blocked;
        r->news += l->counts[STEP_NEW];
        r->frees += l->counts[STEP_FREE];
        r->resizes += l->counts[STEP_RESIZE];
        r->live_at_end += l->bytes;
    }
}

static void finish(struct turns *t, uint64_t from)
{
    struct shared *b = t->e->shared;
    uint64_t to = from, failed = atomic_load(&t->failed_op);
    for (uint32_t i = 0; i < t->count; i++)
        to = t->lanes[i].ended > to ? t->lanes[i].ended : to;
    b->team = (struct team_result){.threads = t->count, .wall = to - from, .locked = t->serial};
    add_up(t, &b->team);
    b->op_index = failed == UINT64_MAX ? b->team.news + b->team.frees + b->team.resizes : failed;
    b->status = failed == UINT64_MAX ? STATUS_DONE : t->failure == NO_ROOM ? STATUS_NO_ROOM : STATUS_FAILED;
}

/* Until all are done. */
static void watch(struct turns *t)
{
    const struct timespec pause = {0, LOOK};
    bool measures = t->e->shared->job.kind == JOB_TEAM_SPACE;
    while (look(t)) {
        if (measures && halts_reached(t))
            halts_measure(t);
        else
            nanosleep(&pause, NULL);
    }
    if (measures)
        halts_measure(t);
}

void team_run(struct engine *e)
{
    struct turns t;
    e->shared->status = STATUS_FAILED;
    if (!turns_open(&t, e))
        return;
    watch_crashes(e->shared);
    e->shared->status = STATUS_RUNNING;
    bool good = start_all(&t);
    uint64_t from = clock_wall();
    atomic_store(&t.go, true);
    if (good)
        watch(&t);
    join_all(&t);
    if (good)
        finish(&t, from);
    else
        e->shared->status = STATUS_FAILED;
}
