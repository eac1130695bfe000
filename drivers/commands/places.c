/* places.c - steve-replay --places OPS -o FILE: where an allocator has the live blocks at one moment.
 *
 * Without --at, a first replay finds the moment at which pages with live blocks have the most bytes that no block uses.
 * drivers/measure/places.h describes the file. `steve pins` reads it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/json.h"
#include "drivers/base/outfile.h"
#include "drivers/commands/commands.h"
#include "drivers/sdk/driver.h"
#include "drivers/supervisor/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static int find_moment(struct session *s)
{
    const struct options *o = s->options;
    const struct plan_facts *f = &s->job.facts;
    uint64_t operations = f->news + f->frees + f->resizes;
    s->job.places_at = o->at_count ? o->at[0] : 0;
    if (s->job.places_at > operations || operations == 0) {
        fprintf(stderr, "steve-replay: %s: has only %" PRIu64 " operations (N, F and R)\n", o->ops,
                operations);
        return EXIT_BAD;
    }
    if (s->job.places_at)
        return EXIT_DONE;
    if (session_run(s, JOB_PLACES, 0, -1) != STATUS_DONE)
        return session_complain(s);
    s->job.places_at = s->shared->places_at;
    return EXIT_DONE;
}

static int write_file(struct session *s, struct outfile *out)
{
    int fd = outfile_begin(out) ? open(out->temporary, O_WRONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        fprintf(stderr, "steve-replay: %s: cannot be written: %s\n", out->path, strerror(errno));
        return EXIT_BAD;
    }
    enum job_status status = session_run(s, JOB_PLACES, 0, fd);
    close(fd);
    if (status == STATUS_DONE)
        return outfile_finish(out) ? EXIT_DONE : EXIT_BAD;
    outfile_abandon(out);
    return session_complain(s);
}

static int write_places(struct session *s)
{
    const struct options *o = s->options;
    const char *const inputs[] = {o->ops, s->job.driver, NULL};
    struct outfile out;
    if (s->info.flags & STEVE_MOVES) {
        fprintf(stderr, "steve-replay: %s moves blocks, so no block keeps a page in use\n", s->info.name);
        return EXIT_BAD;
    }
    int status = outfile_resolve(&out, o->output, inputs, o->force ? OUTFILE_ANY : OUTFILE_PLACES);
    if (status != EXIT_CONTINUE)
        return status;
    if ((status = find_moment(s)) == EXIT_DONE && (status = write_file(s, &out)) == EXIT_DONE && o->json) {
        printf("{\"driver\": ");
        json_string(stdout, s->info.name);
        printf(", \"operations\": %" PRIu64 ", \"page\": 4096}\n", s->job.places_at);
    }
    return status;
}

int command_places(const struct options *o)
{
    struct session s;
    int status = session_open(&s, o);
    if (status == EXIT_CONTINUE)
        status = write_places(&s);
    session_close(&s);
    return status;
}
