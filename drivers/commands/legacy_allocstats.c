/* legacy_allocstats.c - steve-replay --allocstats with the six arguments of the first Steve.
 *
 * Old scripts call it once with OPLIMIT 0, which writes the header and the first record. Each further call adds the
 * record of one data point. Each call replays only up to its operation. The file is complete after each call: a call
 * removes the closing bracket and appends it again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/commands/commands.h"
#include "drivers/commands/result.h"
#include "drivers/supervisor/passes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Copy the result file without its closing bracket. False if it does not exist or is not a result file. */
static bool copy_open_list(FILE *out, const char *path)
{
    FILE *in = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    bool list = false;
    while (in && getline(&line, &room, in) > 0) {
        list |= strncmp(line, "alloc_stats = [", 15) == 0;
        if (strcmp(line, "]\n") != 0 && strcmp(line, "]") != 0)
            fputs(line, out);
    }
    free(line);
    if (in)
        fclose(in);
    if (!list)
        fprintf(stderr, "steve-replay: %s: %s: OPLIMIT 0 must come first and writes the header\n", path,
                in ? "not a result file" : strerror(errno));
    return list;
}

/* The last data point is the requested one, unless the file has fewer operations. */
static void write_last(FILE *out, const struct measurements *r, uint64_t op_limit)
{
    const struct point *p = r->count ? &r->points[r->count - 1] : NULL;
    if (p && p->op_index == op_limit)
        result_point(out, p, op_limit == 0);
    else
        fprintf(stderr, "steve-replay: no record: there are only %" PRIu64 " operations (N, F and R)\n",
                r->total_ops);
    fprintf(out, "]\n");
}

static int add_record(struct session *s, struct result_file *f)
{
    const struct options *o = s->options;
    struct measurements r;
    int status = passes_run(s, &r);
    r.theoretical = o->theoretical;
    bool good = true;
    if (o->op_limit == 0)
        result_header(f->out, s, &r);
    else
        good = copy_open_list(f->out, o->output);
    if (good)
        write_last(f->out, &r, o->op_limit);
    free(r.points);
    if (!good)
        result_abandon(f);
    return good && result_finish(f) ? status : EXIT_BAD;
}

int command_legacy_allocstats(const struct options *o)
{
    struct session s;
    struct result_file f;
    int status = session_open(&s, o);
    if (status == EXIT_CONTINUE && !s.job.kill_percent && !plan_cut(&s.plan, o->op_limit + 1)) {
        fprintf(stderr, "steve-replay: %s: out of memory\n", o->ops);
        status = EXIT_BAD;
    }
    if (status == EXIT_CONTINUE) {
        s.job.facts.steps = s.plan.facts.steps;
        status = result_begin(&f, &s);
    }
    if (status == EXIT_CONTINUE && f.file.special && o->op_limit) {
        fprintf(stderr,
                "steve-replay: %s: is a device or a pipe, to which no record can be added; name a file\n",
                o->output);
        result_abandon(&f);
        status = EXIT_BAD;
    }
    if (status == EXIT_CONTINUE)
        status = add_record(&s, &f);
    session_close(&s);
    return status;
}
