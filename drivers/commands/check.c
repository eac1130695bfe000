/* check.c - steve-replay --check OPS: looks for faults of an allocator, and does nothing else.
 *
 * A replay fills, compares and audits all blocks (drivers/run/guard.h, drivers/run/audit.h). With --fail-nth, one of the
 * allocator's requests for memory is refused. It must then report that it has no room, or find room otherwise, and
 * continue to work.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/json.h"
#include "drivers/commands/commands.h"
#include "drivers/run/audit.h"
#include "drivers/sdk/driver.h"
#include "drivers/supervisor/session.h"

#include <inttypes.h>
#include <stdio.h>

struct findings {
    uint64_t replays, requests; /* requests for memory in the last replay without a refusal */
    bool faulty;
    char text[512]; /* the fault */
};

static void note_fault(struct session *s, struct findings *f)
{
    session_describe(s, f->text, sizeof f->text);
    f->faulty = true;
    if (!s->options->json)
        fprintf(stderr, "steve-replay: %s\n", f->text);
}

/* Replay once, refusing the request with this number (0: none). Returns an exit status. */
static int replay(struct session *s, struct findings *f, uint64_t nth)
{
    s->job.fail_nth = nth;
    enum job_status status = session_run(s, JOB_SPACE, 0, -1);
    f->replays++;
    if (status == STATUS_DONE)
        return EXIT_DONE;
    note_fault(s, f);
    /* without a refusal, the heap may be too small */
    return status == STATUS_NO_ROOM && !(s->shared && s->shared->refusal.refused) ? EXIT_NO_ROOM : EXIT_BAD;
}

static int refuse_each(struct session *s, struct findings *f)
{
    int status = EXIT_DONE;
    for (uint64_t nth = 1; status == EXIT_DONE; nth++) {
        status = replay(s, f, nth);
        if (!s->shared->refusal.refused)
            return status;
    }
    return status;
}

static int refuse_one(struct session *s, struct findings *f, uint64_t nth)
{
    int status = replay(s, f, nth);
    if (status != EXIT_DONE || s->shared->refusal.refused)
        return status;
    fprintf(stderr, "steve-replay: %s requested memory only %" PRIu64 " times after its start\n",
            s->info.name, s->shared->refusal.requests);
    return EXIT_BAD;
}

static void print_json(const struct session *s, const struct findings *f)
{
    printf("{\"driver\": ");
    json_string(stdout, s->info.name);
    printf(", \"fault\": ");
    if (f->faulty)
        json_string(stdout, f->text);
    else
        printf("null");
    printf(", \"replays\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"alignment\": %" PRIu64
           ", \"alignment_of_1_byte\": %" PRIu64 "}\n",
           f->replays, f->requests, audit_alignment(s->info.flags, UINT64_MAX),
           audit_alignment(s->info.flags, 1));
}

static void print_text(const struct session *s, const struct findings *f)
{
    const struct plan_facts *p = &s->plan.facts;
    printf("%s: no fault in %" PRIu64 " operations, with addresses aligned to %" PRIu64 " bytes%s",
           s->info.name, p->news + p->frees + p->resizes, audit_alignment(s->info.flags, UINT64_MAX),
           s->info.flags & STEVE_ALIGNS_TO_SIZE ? " or to the size of a smaller block" : "");
    if (s->options->fail_nth)
        printf(", in %" PRIu64 " replays; %" PRIu64 " requests for memory", f->replays, f->requests);
    putchar('\n');
}

static int check(struct session *s)
{
    uint64_t nth = s->options->fail_nth;
    struct findings f = {0};
    if (nth && (s->info.confinement == STEVE_IN_HEAP || s->info.confinement == STEVE_NOT_CONFINED)) {
        fprintf(stderr, "steve-replay: %s makes no requests for memory that can be refused\n", s->info.name);
        return EXIT_BAD;
    }
    int status = replay(s, &f, 0);
    f.requests = s->shared ? s->shared->refusal.requests : 0;
    if (status == EXIT_DONE && nth)
        status = nth == FAIL_EACH ? refuse_each(s, &f) : refuse_one(s, &f, nth);
    if (s->options->json)
        print_json(s, &f);
    else if (status == EXIT_DONE && !s->options->quiet)
        print_text(s, &f);
    return status;
}

int command_check(const struct options *o)
{
    struct session s;
    int status = session_open(&s, o);
    if (status == EXIT_CONTINUE)
        status = check(&s);
    session_close(&s);
    return status;
}
