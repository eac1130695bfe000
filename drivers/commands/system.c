/* system.c - steve-replay --system OPS: replay on malloc of the process, in memory of the system.
 *
 * steve tune starts this with LD_PRELOAD and the options of an allocator in the environment, once for each
 * measurement. Real programs get their allocator in the same way, so the results can be compared with theirs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/json.h"
#include "drivers/commands/commands.h"
#include "drivers/run/system.h"
#include "drivers/supervisor/session.h"

#include <inttypes.h>
#include <stdio.h>

enum { SAMPLES = 200, LEAST_HEAP = 4096 };

static bool open_session(struct session *s, const struct options *o)
{
    char text[4096 + 512] = "";
    *s = (struct session){.options = o, .plan = {.fd = -1}, .shared_fd = -1};
    struct plan_options wanted = {.accesses = o->accesses == ACCESSES_YES,
                                  .threads = o->threads == THREADS_REPLAY};
    const bool good = o->keep_plan ? plan_read_kept(&s->plan, o->ops, o->keep_plan, wanted, text, sizeof text)
                                   : plan_read(&s->plan, o->ops, wanted, text, sizeof text);
    if (!good) {
        fprintf(stderr, "steve-replay: %s\n", text);
        return false;
    }
    if (text[0] && !o->quiet)
        fprintf(stderr, "steve-replay: %s\n", text);
    const struct plan_facts *f = &s->plan.facts;
    uint64_t ops = f->news + f->frees + f->resizes;
    snprintf(s->info.name, sizeof s->info.name, "%s", system_driver.name);
    s->job = (struct job){.confinement = STEVE_NOT_CONFINED,
                          .flags = system_driver.flags,
                          .heap = LEAST_HEAP,
                          .facts = *f,
                          .interval = ops / SAMPLES + 1,
                          .total_ops = ops,
                          .seed = o->seed,
                          .rounds = 1,
                          .touch = o->touch,
                          .pace = o->pace};
    return true;
}

static void print_latency(const struct shared *b)
{
    static const char *const names[TIMED_OPS] = {"malloc", "free", "realloc"};
    printf(", \"clock_step\": %.3f", (double)b->clock_step / 1000);
    for (int i = 0; i < TIMED_OPS; i++)
        printf(", \"%s\": {\"count\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"p99\": %" PRIu64
               ", \"p999\": %" PRIu64 ", \"most\": %" PRIu64 "}",
               names[i], b->times[i].count, latency_at(&b->times[i], 500), latency_at(&b->times[i], 990),
               latency_at(&b->times[i], 999), b->times[i].most);
}

static uint64_t over(uint64_t bytes, uint64_t baseline)
{
    return bytes > baseline ? bytes - baseline : 0;
}

static void print_result(const struct session *s, const struct system_result *r)
{
    const struct plan_facts *f = &s->plan.facts;
    printf("{\"operations\": %" PRIu64 ", \"live_peak\": %" PRIu64 ", \"process_peak\": %" PRIu64
           ", \"peak_resident\": %" PRIu64 ", \"end_resident\": %" PRIu64 ", \"ended_resident\": %" PRIu64
           ", \"mean_resident\": ",
           f->news + f->frees + f->resizes, f->live_peak, r->peak, over(r->peak, r->baseline),
           over(r->end, r->baseline), over(r->ended, r->baseline));
    if (!r->sampled) /* the replay was too short */
        printf("null");
    else
        printf("%" PRIu64, r->mean);
    printf(", \"cpu_ns\": %" PRIu64 ", \"user_ns\": %" PRIu64 ", \"system_ns\": %" PRIu64
           ", \"wall_ns\": %" PRIu64 ", \"page_faults\": %" PRIu64,
           r->cpu, r->user, r->system, r->wall, r->faults);
}

static int measure(struct session *s)
{
    if (session_run(s, JOB_SYSTEM, 0, -1) != STATUS_DONE)
        return session_complain(s);
    print_result(s, &s->shared->system);
    if (s->options->latency) {
        s->job.total_ops = 0;
        if (session_run(s, JOB_TIMED, 0, -1) != STATUS_DONE)
            return session_complain(s);
        print_latency(s->shared);
    }
    printf("}\n");
    return EXIT_DONE;
}

int command_system(const struct options *o)
{
    struct session s;
    int status = open_session(&s, o) ? measure(&s) : EXIT_BAD;
    session_close(&s);
    return status;
}
