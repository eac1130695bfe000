/* measure.c - steve-replay --measure OPS: one measurement of an allocator, as one line of JSON.
 *
 * There are three replays, each in a fresh process. The first measures the time of the whole replay, including that of
 * writes to new blocks, and reads counters; the second the times of single operations; the third the space. On threads
 * there is one replay only (measure_threads). `steve compare` runs this command several times for several allocators in
 * random order, and computes medians and intervals.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/confinement.h"
#include "drivers/base/json.h"
#include "drivers/commands/commands.h"
#include "drivers/sdk/driver.h"
#include "drivers/supervisor/passes.h"
#include "drivers/supervisor/session.h"

#include <inttypes.h>
#include <stdio.h>

static void put_number(const char *name, uint64_t value)
{
    printf(", \"%s\": %" PRIu64, name, value);
}

static void put_whole(const struct shared *b)
{
    const struct counters *c = &b->counters;
    put_number("operations", b->op_index);
    put_number("cpu_ns", b->cpu);
    put_number("wall_ns", b->wall);
    put_number("minor_faults", c->minor_faults);
    put_number("major_faults", c->major_faults);
    put_number("yields", c->yields);
    put_number("preemptions", c->preemptions);
    put_number("memory_calls", c->memory_calls);
    for (int i = 0; i < HARDWARE; i++)
        if (c->has[i])
            put_number(hardware_names[i], c->hardware[i]);
        else
            printf(", \"%s\": null", hardware_names[i]);
}

static void put_latencies(const struct shared *b)
{
    static const struct {
        const char *name;
        unsigned permille;
    } percentiles[] = {{"p50_ns", 500}, {"p99_ns", 990}, {"p999_ns", 999}};
    struct latency all = {0};
    for (int i = 0; i < TIMED_OPS; i++)
        latency_join(&all, &b->times[i]);
    for (size_t i = 0; i < sizeof percentiles / sizeof percentiles[0]; i++)
        put_number(percentiles[i].name, latency_at(&all, percentiles[i].permille));
    put_number("max_ns", all.most);
    put_number("timed", all.count);
    put_number("left_out", all.preempted);
    printf(", \"clock_step_ns\": %.3f, \"clock_cost_ns\": %.3f", (double)b->clock_step / 1000,
           (double)b->clock_cost / 1000);
}

static void put_space(const struct session *s, const struct shared *b)
{
    put_number("live_peak", s->plan.facts.live_peak);
    put_number("resident", b->peak.resident);
    put_number("end_resident", b->end_resident);
    put_number("mapped", b->peak.mapped);
    put_number("used", b->peak.used);
    if (s->info.has_usable)
        put_number("usable", b->peak.usable);
    else
        printf(", \"usable\": null");
    if (s->info.has_header)
        put_number("headers", b->peak.headers);
    else
        printf(", \"headers\": null");
    put_number("outside", b->outside);
}

/* A replay on threads. Times are sums over all threads, except wall_ns, which is elapsed time. */
static int measure_threads(struct session *s)
{
    if (passes_run_on_threads(s, JOB_THREADS) != STATUS_DONE)
        return session_complain(s);
    const struct threads_result *t = &s->shared->threaded;
    printf("{\"driver\": ");
    json_string(stdout, s->info.name);
    put_number("heap", s->job.heap);
    put_number("operations", t->news + t->frees + t->resizes);
    put_number("threads", t->threads);
    put_number("threads_of_file", s->plan.facts.schedule.threads);
    printf(", \"locked_by\": \"%s\"", t->locked ? "replay" : "allocator");
    put_number("wall_ns", t->wall);
    put_number("cpu_ns", t->cpu);
    put_number("waited_ns", t->waited);
    put_number("lock_waited_ns", t->lock_waited);
    put_number("blocked", t->blocked);
    put_number("remote_frees", t->remote_frees);
    puts("}");
    return EXIT_DONE;
}

static int measure(struct session *s)
{
    if (s->options->threads == THREADS_REPLAY)
        return measure_threads(s);
    if (session_run(s, JOB_ONCE, 0, -1) != STATUS_DONE)
        return session_complain(s);
    printf("{\"driver\": ");
    json_string(stdout, s->info.name);
    put_number("heap", s->job.heap);
    printf(", \"confined\": %s", is_confined(s->info.confinement) ? "true" : "false");
    put_whole(s->shared);
    enum job_status status = session_run(s, JOB_TIMED, 0, -1);
    if (status == STATUS_DONE) {
        put_latencies(s->shared);
        s->job.pace = s->options->pace;
        status = session_run(s, JOB_SPACE, 0, -1);
    }
    if (status == STATUS_DONE)
        put_space(s, s->shared);
    puts("}");
    return status == STATUS_DONE ? EXIT_DONE : session_complain(s);
}

int command_measure(const struct options *o)
{
    struct session s;
    int status = session_open(&s, o);
    s.job.writes = true;
    if (status == EXIT_CONTINUE)
        status = measure(&s);
    session_close(&s);
    return status;
}
