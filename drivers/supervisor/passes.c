/* passes.c - does the runs of one measurement.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/supervisor/passes.h"
#include "drivers/base/confinement.h"
#include "drivers/run/threads.h"
#include "drivers/supervisor/find_driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_PASS 3000000000u /* nanoseconds of CPU time */

/* Times of the data points: passes x room. */
struct timings {
    struct point *points;
    uint64_t room, count; /* number of points that every pass has */
    uint32_t passes;
};

/* Keep the exit status of the first error. */
static int trouble(struct session *s, struct measurements *r)
{
    r->complete = false;
    session_describe(s, r->error, sizeof r->error);
    return session_complain(s);
}

static void keep_batch(const struct shared *b, struct measurements *r, bool first)
{
    if (first || b->cpu < r->batch_cpu)
        r->batch_cpu = b->cpu;
    if (b->warm_cpu && (!r->warm_cpu || b->warm_cpu < r->warm_cpu))
        r->warm_cpu = b->warm_cpu;
    if (first || b->wall < r->batch_wall)
        r->batch_wall = b->wall;
    r->pass_cpu[r->passes++] = b->cpu;
    r->total_ops = b->op_index;
    r->rounds = b->rounds;
    r->odd_locks = b->odd_locks;
    r->killed = b->killed;
    r->highest = b->highest;
    r->clock_cost = b->clock_cost;
    r->clock_step = b->clock_step;
    r->clock_counter = b->clock_counter;
}

/* Is another pass needed after pass number i, counted from 0? */
static bool goes_on(const struct session *s, const struct shared *b, uint32_t i)
{
    bool is_long = b->cpu >= LONG_PASS && !s->options->passes_given;
    return i + 1 < s->options->passes && !is_long;
}

static enum job_status run_batches(struct session *s, struct measurements *r)
{
    enum job_status status;
    uint32_t i = 0;
    do {
        status = session_run(s, JOB_BATCH, 0, -1);
        if (status == STATUS_FAILED)
            return status;
        keep_batch(s->shared, r, i == 0);
    } while (goes_on(s, s->shared, i++));
    return status;
}

static struct session null_session(const struct session *s)
{
    struct session null = *s;
    null.shared = NULL;
    null.shared_fd = -1;
    null.job.confinement = 0;
    null.job.flags = 0;
    null.info = (struct shared_info){.name = "null"};
    return null;
}

/* Measure the same operations without an allocator. Not for runs of several rounds, because they end only when
 * memory runs out. */
static void run_null(const struct session *s, struct measurements *r)
{
    struct session null = null_session(s);
    if (s->options->legacy && s->options->op_limit) /* only the header contains the result */
        return;
    if (s->job.kill_percent || strcmp(s->info.name, "null") == 0 || !find_driver("null", null.job.driver))
        return;
    for (uint32_t i = 0; i < s->options->passes; i++) {
        if (session_run(&null, JOB_BATCH, 0, -1) != STATUS_DONE || null.shared->op_index != r->total_ops)
            continue;
        if (r->null_cpu == 0 || null.shared->cpu < r->null_cpu)
            r->null_cpu = null.shared->cpu;
        if (r->null_warm_cpu == 0 || null.shared->warm_cpu < r->null_warm_cpu)
            r->null_warm_cpu = null.shared->warm_cpu;
    }
    shared_delete(null.shared, null.shared_fd);
}

/* Do a pass on threads, in a heap with room for what allocators reserve for each thread. */
enum job_status passes_run_on_threads(struct session *s, enum job_kind kind)
{
    uint64_t heap = s->job.heap;
    s->job.heap += THREADS_HEAP * s->plan.facts.schedule.threads;
    enum job_status status = session_run(s, kind, 0, -1);
    s->job.heap = heap;
    return status;
}

static enum job_status run_threads_space(struct session *s, struct measurements *r)
{
    enum job_status status = passes_run_on_threads(s, JOB_THREADS_SPACE);
    r->threads_space = s->shared->threads_space;
    return status;
}

/* Do the passes on threads; *best is the fastest. */
static enum job_status run_threads(struct session *s, struct threads_result *best)
{
    enum job_status status = STATUS_DONE;
    for (uint32_t i = 0; i < s->options->passes && status == STATUS_DONE; i++) {
        status = passes_run_on_threads(s, JOB_THREADS);
        if (status == STATUS_DONE && (!best->threads || s->shared->threaded.wall < best->wall))
            *best = s->shared->threaded;
    }
    return status;
}

/* Measure how long threads wait for each other without an allocator. */
static void run_null_threads(const struct session *s, struct measurements *r)
{
    struct threads_result best = {0};
    struct session null = null_session(s);
    if (find_driver("null", null.job.driver) && run_threads(&null, &best) == STATUS_DONE)
        r->null_threads_wall = best.wall;
    shared_delete(null.shared, null.shared_fd);
}

static int run_threads_passes(struct session *s, struct measurements *r)
{
    if (s->options->threads != THREADS_REPLAY)
        return EXIT_DONE;
    if (run_threads(s, &r->threaded) != STATUS_DONE || run_threads_space(s, r) != STATUS_DONE)
        return trouble(s, r);
    run_null_threads(s, r);
    return EXIT_DONE;
}

static uint64_t time_of(const struct latency times[TIMED_OPS])
{
    uint64_t sum = 0;
    for (int i = 0; i < TIMED_OPS; i++)
        sum += times[i].sum;
    return sum;
}

/* Allocate room for the data points of all passes; false when out of memory. */
static bool make_room(struct timings *t)
{
    t->points = calloc(t->room * t->passes, sizeof *t->points);
    t->count = t->room;
    return t->points != NULL;
}

/* Do a pass and keep its data points, as many as all passes have; false if it failed. */
static bool keep_points(struct session *s, enum job_kind job, struct timings *t, uint32_t pass)
{
    if (session_run(s, job, t->room, -1) == STATUS_FAILED)
        return false;
    memcpy(t->points + pass * t->room, s->shared->points, s->shared->count * sizeof *t->points);
    if (s->shared->count < t->count)
        t->count = s->shared->count;
    return true;
}

static bool run_timed(struct session *s, struct measurements *r, struct timings *t)
{
    if (!make_room(t))
        return false;
    uint32_t i = 0;
    do {
        if (!keep_points(s, JOB_TIMED, t, i))
            return false;
        if (i == 0 || time_of(s->shared->times) < time_of(r->times))
            memcpy(r->times, s->shared->times, sizeof r->times);
    } while (goes_on(s, s->shared, i++));
    r->timed_passes = t->passes = i;
    return true;
}

/* The same for the times between data points. */
static bool run_pieces(struct session *s, struct timings *t)
{
    if (!make_room(t))
        return false;
    for (uint32_t i = 0; i < t->passes; i++)
        if (!keep_points(s, JOB_PIECES, t, i))
            return false;
    return true;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The median, over the passes, of the time at `offset` of data point i. */
static uint64_t median(const struct timings *t, uint64_t i, size_t offset)
{
    uint64_t values[99];
    for (uint32_t p = 0; p < t->passes; p++)
        memcpy(&values[p], (const char *)&t->points[p * t->room + i] + offset, sizeof values[p]);
    qsort(values, t->passes, sizeof values[0], compare);
    return values[t->passes / 2];
}

/* Add the times to the points of the space run. */
static void join_times(struct measurements *r, const struct timings *t)
{
    for (uint64_t i = 0; i < r->count && i < t->count; i++) {
        struct point *p = &r->points[i];
        p->op_time = median(t, i, offsetof(struct point, op_time));
        p->oom_time = median(t, i, offsetof(struct point, oom_time));
        p->interval_time = median(t, i, offsetof(struct point, interval_time));
        p->interval_most = median(t, i, offsetof(struct point, interval_most));
        p->interval_ops = t->points[i].interval_ops;
    }
}

static void join_pieces(struct measurements *r, const struct timings *t)
{
    for (uint64_t i = 0; i < r->count && i < t->count; i++) {
        r->points[i].batch_time = median(t, i, offsetof(struct point, batch_time));
        r->points[i].batch_ops = t->points[i].batch_ops;
    }
}

static bool run_space(struct session *s, struct measurements *r, uint64_t room)
{
    enum job_status status = session_run(s, JOB_SPACE, room, -1);
    r->count = s->shared ? s->shared->count : 0;
    r->points = calloc(r->count + 1, sizeof *r->points);
    if (!r->points)
        return false;
    memcpy(r->points, s->shared->points, r->count * sizeof *r->points);
    r->fragmentation = s->shared->fragmentation;
    r->in_memory = s->shared->in_memory;
    r->outside = s->shared->outside;
    r->resident = s->shared->peak.resident;
    if (s->shared->highest > r->highest)
        r->highest = s->shared->highest;
    return status != STATUS_FAILED;
}

static void set_points(struct session *s, uint64_t total)
{
    uint64_t points = s->options->points;
    s->job.total_ops = total;
    if (s->options->legacy)
        return;
    s->job.interval = total > points ? (total + points - 1) / points : 1;
    s->job.peak_point = s->plan.facts.peak_op;
}

static void note_outside(const struct session *s, const struct measurements *r)
{
    if (r->outside && is_confined(s->info.confinement))
        fprintf(stderr,
                "steve-replay: %s: took %" PRIu64
                " bytes outside of its heap (outside_bytes in the result)\n",
                s->info.name, r->outside);
}

/* A run of several rounds should end because memory runs out: warn if it did not. */
static void note_rounds(const struct session *s, const struct measurements *r)
{
    if (s->job.kill_percent && r->rounds == s->job.rounds && !s->options->quiet)
        fprintf(stderr, "steve-replay: %s: stopped after %" PRIu64 " rounds with memory left (--rounds)\n",
                s->info.name, r->rounds);
}

int passes_run(struct session *s, struct measurements *r)
{
    int status = EXIT_DONE;
    struct timings t = {.passes = s->options->passes};
    *r = (struct measurements){.theoretical = s->plan.facts.live_peak, .complete = true};
    enum job_status batch = run_batches(s, r);
    if (batch != STATUS_DONE)
        status = trouble(s, r);
    if (batch == STATUS_FAILED || r->total_ops == 0)
        return status;
    note_rounds(s, r);
    run_null(s, r);
    if (status == EXIT_DONE && (status = run_threads_passes(s, r)) == EXIT_BAD)
        return status;
    set_points(s, r->total_ops);
    t.room = s->options->legacy ? 4 : r->total_ops / s->job.interval + 4;
    bool good = run_timed(s, r, &t);
    struct timings pieces = {.room = t.room, .passes = t.passes};
    if (!s->options->legacy) /* its points are not at equal distances */
        good = good && run_pieces(s, &pieces);
    good = good && run_space(s, r, t.room);
    if (!good)
        status = trouble(s, r);
    note_outside(s, r);
    join_times(r, &t);
    if (pieces.points)
        join_pieces(r, &pieces);
    free(t.points);
    free(pieces.points);
    return status;
}
