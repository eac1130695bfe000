/* session.c - prepares and runs jobs for one ops file and one allocator.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/supervisor/session.h"
#include "drivers/base/clock.h"
#include "drivers/sdk/driver.h"
#include "drivers/supervisor/find_driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { INFO_TIMEOUT = 60 };

bool session_info(const char *path, struct shared_info *info, char *text, size_t size)
{
    struct supervise_options su = {.label = path, .timeout = INFO_TIMEOUT, .quiet = true};
    int fd;
    struct shared *b = shared_new(0, &fd);
    if (!b) {
        snprintf(text, size, "out of memory");
        return false;
    }
    b->job.kind = JOB_INFO;
    snprintf(b->job.driver, sizeof b->job.driver, "%s", path);
    supervise(&su, b, fd, -1, -1);
    bool good = b->status == STATUS_DONE && !b->info.reason[0];
    *info = b->info;
    snprintf(text, size, "%s", b->info.reason[0] ? b->info.reason : b->text);
    shared_delete(b, fd);
    return good;
}

static int find_it(struct session *s)
{
    char text[512];
    const char *name = s->options->allocator;
    const struct own_driver *own = find_own(name);
    if (!find_driver(name, s->job.driver)) {
        if (own && *own->package)
            fprintf(stderr, "steve-replay: allocator '%s' was not built: it needs Debian's %s\n", name,
                    own->package);
        else
            fprintf(stderr, "steve-replay: unknown allocator '%s'; steve-replay --list names them\n", name);
        return EXIT_BAD;
    }
    if (session_info(s->job.driver, &s->info, text, sizeof text))
        return EXIT_CONTINUE;
    fprintf(stderr, "steve-replay: allocator '%s': %s\n", name, text);
    return EXIT_BAD;
}

static uint64_t times_peak(const struct session *s, double factor)
{
    double bytes = (double)s->plan.facts.live_peak * factor;
    return bytes < 16 ? 16 : bytes > 1e15 ? (uint64_t)1e15 : (uint64_t)bytes;
}

/* Size of the heap in bytes, as requested or by default. A factor is raised if the allocator may not start in
 * less. */
static void settle_heap(struct session *s)
{
    const struct options *o = s->options;
    s->job.heap = o->heap ? o->heap : times_peak(s, o->heap_factor > 0 ? o->heap_factor : 4);
    if (o->heap || s->job.heap >= s->info.least_heap)
        return;
    s->job.heap = s->info.least_heap;
    s->heap_raised = true;
    if (!o->quiet)
        fprintf(stderr, "steve-replay: heap raised to %" PRIu64 " bytes: %s cannot start in less\n",
                s->job.heap, s->info.name);
}

int session_open(struct session *s, const struct options *o)
{
    char text[4096 + 512];
    *s = (struct session){.options = o, .plan = {.fd = -1}, .shared_fd = -1};
    int r = find_it(s);
    if (r != EXIT_CONTINUE)
        return r;
    bool accesses =
        o->accesses == ACCESSES_DEFAULT ? o->command == COMMAND_MEMPLOT : o->accesses == ACCESSES_YES;
    const struct plan_options wanted = {accesses, o->threads == THREADS_REPLAY, .shared = !o->quiet};
    if (!plan_read(&s->plan, o->ops, wanted, text, sizeof text)) {
        fprintf(stderr, "steve-replay: %s\n", text);
        return EXIT_BAD;
    }
    if (s->plan.facts.shared)
        fprintf(stderr,
                "steve-replay: %s: %" PRIu64
                " N or R make a block at the address of a live one, as in files of steve "
                "ops --compat; each is a block of its own here\n",
                o->ops, s->plan.facts.shared);
    s->job.confinement = s->info.confinement;
    s->job.flags = s->info.flags;
    s->job.facts = s->plan.facts;
    s->job.interval = s->job.peak_point = UINT64_MAX;
    s->job.seed = o->seed;
    s->job.kill_percent = o->kill_percent;
    s->job.rounds = o->rounds;
    s->job.touch = o->touch;
    s->job.check = o->check;
    s->job.workers = o->workers;
    if (o->command != COMMAND_MIN_HEAP)
        settle_heap(s);
    return EXIT_CONTINUE;
}

/* Report the driver's minimum, because some allocators crash in a smaller heap instead of failing. */
static void judge_small_heap(const struct session *s)
{
    struct shared *b = s->shared;
    if (b->status != STATUS_FAILED || b->job.heap >= s->info.least_heap)
        return;
    char text[sizeof b->text];
    snprintf(text, sizeof text, "%.120s; it starts for certain in %" PRIu64 " bytes", b->text,
             s->info.least_heap);
    memcpy(b->text, text, sizeof text);
    b->status = STATUS_NO_ROOM;
}

void session_close(struct session *s)
{
    shared_delete(s->shared, s->shared_fd);
    plan_close(&s->plan);
    s->shared = NULL;
}

/* The clock, measured once for all jobs, which have processes of their own. */
static struct clock_facts clock_measured(void)
{
    static bool known;
    if (!known)
        clock_calibrate();
    known = true;
    return clock_facts;
}

enum job_status session_run(struct session *s, enum job_kind kind, uint64_t room, int frames_fd)
{
    struct supervise_options su = {
        .label = s->info.name, .timeout = s->options->timeout, .quiet = s->options->quiet};
    shared_delete(s->shared, s->shared_fd);
    s->shared = shared_new(room, &s->shared_fd);
    if (!s->shared) {
        shared_delete(NULL, s->shared_fd);
        s->shared_fd = -1;
        return STATUS_FAILED;
    }
    s->shared->job = s->job;
    s->shared->job.kind = kind;
    if (kind != JOB_FIT)
        s->shared->job.clock = clock_measured();
    supervise(&su, s->shared, s->shared_fd, s->plan.fd, frames_fd);
    judge_small_heap(s);
    return s->shared->status;
}

void session_describe(const struct session *s, char *text, size_t size)
{
    const struct shared *b = s->shared;
    if (!b)
        snprintf(text, size, "out of memory");
    else if (b->status == STATUS_NO_ROOM)
        snprintf(text, size,
                 "%s: out of memory at operation %" PRIu64 " in a heap of %" PRIu64
                 " bytes: give a larger one "
                 "(--heap)%s%s",
                 s->info.name, b->op_index, b->job.heap, b->text[0] ? "; " : "", b->text);
    else
        snprintf(text, size, "%s: at operation %" PRIu64 ": %s", s->info.name, b->op_index,
                 b->text[0] ? b->text : "out of memory");
    if (!b || !b->refusal.refused)
        return;
    size_t length = strlen(text);
    snprintf(text + length, size - length, " (request %" PRIu64 " for memory was refused)", b->refusal.nth);
}

int session_complain(const struct session *s)
{
    char text[512];
    session_describe(s, text, sizeof text);
    fprintf(stderr, "steve-replay: %s\n", text);
    return s->shared && s->shared->status == STATUS_NO_ROOM ? EXIT_NO_ROOM : EXIT_BAD;
}
