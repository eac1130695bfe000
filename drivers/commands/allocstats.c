/* allocstats.c - steve-replay --allocstats OPS -o RESULT: measure an allocator at up to N data points.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/json.h"
#include "drivers/commands/commands.h"
#include "drivers/commands/result.h"
#include "drivers/supervisor/passes.h"

#include <inttypes.h>
#include <stdlib.h>

static void write_points(FILE *out, const struct measurements *r)
{
    for (uint64_t i = 0; i < r->count; i++)
        result_point(out, &r->points[i], i == 0);
    fprintf(out, "]\n");
}

static void print_json(const struct session *s, const struct measurements *r)
{
    printf("{\"driver\": ");
    json_string(stdout, s->info.name);
    printf(", \"result\": ");
    json_string(stdout, s->options->output);
    printf(", \"complete\": %s, \"error\": ", r->complete ? "true" : "false");
    json_string(stdout, r->error);
    printf(", \"points\": %" PRIu64 ", \"operations\": %" PRIu64 ", \"heap_size\": %" PRIu64
           ", \"live_peak\": %" PRIu64 ", \"highest_extent\": %" PRIu64 ", \"ns_per_operation\": %.3f}\n",
           r->count, r->total_ops, s->job.heap, s->plan.facts.live_peak, r->highest,
           r->total_ops ? (double)r->batch_cpu / (double)r->total_ops : 0.0);
}

static void print_text(const struct session *s, const struct measurements *r)
{
    if (!r->complete && r->total_ops == 0) { /* the error has been printed */
        printf("%s: no whole replay; %s says why\n", s->info.name, s->options->output);
        return;
    }
    printf("%s: %" PRIu64 " operations, heap %" PRIu64 " bytes, live peak %" PRIu64 ", extent %" PRIu64
           ", %.1f ns per operation, %" PRIu64 " data points in %s\n",
           s->info.name, r->total_ops, s->job.heap, s->plan.facts.live_peak, r->highest,
           r->total_ops ? (double)r->batch_cpu / (double)r->total_ops : 0.0, r->count, s->options->output);
}

static int measure(struct session *s, struct result_file *f)
{
    struct measurements r;
    int status = passes_run(s, &r);
    result_header(f->out, s, &r);
    write_points(f->out, &r);
    if (!result_finish(f))
        status = EXIT_BAD;
    else if (s->options->json)
        print_json(s, &r);
    else if (!s->options->quiet)
        print_text(s, &r);
    free(r.points);
    return status;
}

int command_allocstats(const struct options *o)
{
    struct session s;
    struct result_file f;
    int status = session_open(&s, o);
    if (status == EXIT_CONTINUE && (status = result_begin(&f, &s)) == EXIT_CONTINUE)
        status = measure(&s, &f);
    session_close(&s);
    return status;
}
