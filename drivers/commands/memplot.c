/* memplot.c - steve-replay --memplot: a film of the heap, pictures of single moments, and a poster of the whole
 * replay.
 *
 * A first run determines the length of the replay and the part of the heap that has blocks. Only that part is drawn.
 * Each frame has the same number of operations or of allocated bytes. If the heap is too small, the film ends where
 * memory ran out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/json.h"
#include "drivers/commands/commands.h"
#include "drivers/film/ffmpeg.h"
#include "drivers/film/geometry.h"
#include "drivers/film/sites.h"
#include "drivers/supervisor/find_driver.h"
#include "drivers/supervisor/session.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* The default name of a film: that of the ops file, with -animation.avi. */
static const char *film_name(const struct options *o, char *room, size_t size)
{
    if (o->output || o->still || o->poster)
        return o->output;
    snprintf(room, size, "%s-animation.avi", strcmp(o->ops, "-") == 0 ? "stdin" : o->ops);
    return room;
}

static bool good_name(const char *path, bool still)
{
    const char *fault = path ? encoder_fault(path, still) : NULL;
    if (fault)
        fprintf(stderr, "steve-replay: %s: %s\nTry 'steve-replay --help'.\n", path, fault);
    return !fault;
}

static uint64_t at_least_1(uint64_t x)
{
    return x ? x : 1;
}

/* The range of instruction counts, for a file that has them. */
static uint64_t span(const struct session *s, uint64_t *first)
{
    const struct schedule_facts *f = &s->plan.facts.schedule;
    uint64_t last = 0, count = s->shared->op_index < f->times ? s->shared->op_index : f->times;
    off_t at = (off_t)f->latency_at;
    if (count == 0 || pread(s->plan.fd, first, sizeof *first, at) != sizeof *first ||
        pread(s->plan.fd, &last, sizeof last, at + (off_t)((count - 1) * sizeof last)) != sizeof last)
        return 0;
    return last > *first ? last - *first : 0;
}

/* The length of the whole replay in the film's unit of time. */
static uint64_t total_time(const struct session *s, uint64_t *first)
{
    switch (s->options->time) {
    case FILM_BYTES:
        return s->shared->allocated;
    case FILM_INSTRUCTIONS:
        return span(s, first);
    default:
        return s->shared->op_index;
    }
}

static struct film_size plan_film(const struct session *s)
{
    const struct shared *b = s->shared;
    const struct options *o = s->options;
    struct islands islands = b->islands;
    islands_round(&islands);
    uint64_t first = 0, total = total_time(s, &first), reach = islands_bytes(&islands);
    uint64_t peak = s->job.facts.live_peak, most = b->peak.resident > peak ? b->peak.resident : peak;
    struct film_size film = {.layout = o->layout,
                             .width = o->width,
                             .height = o->height,
                             .time = o->time,
                             .colour = o->colour,
                             .first = first,
                             .total = total,
                             .per_frame = at_least_1((total + o->frames - 1) / o->frames),
                             .islands = islands,
                             .extent = o->extent ? o->extent : reach,
                             .most = o->strip ? o->strip : most,
                             .sites = s->job.film.sites};
    memcpy(film.site_names, s->job.film.site_names, sizeof film.site_names);
    return film;
}

/* Determine the length of the run, and the part of the heap that has blocks: a space run without data points. */
static int survey(struct session *s)
{
    int status = EXIT_DONE;
    enum job_status space = session_run(s, JOB_SPACE, 0, -1);
    if (space != STATUS_DONE)
        status = session_complain(s);
    if (!s->shared)
        return EXIT_BAD;
    s->job.total_ops = s->shared->op_index;
    s->job.film = plan_film(s);
    return status;
}

/* Make one file of `*frames` frames. False after printing an error. */
static bool make(struct session *s, const char *path, enum film_kind kind, uint64_t *frames)
{
    const struct options *o = s->options;
    char painter[PATH_MAX];
    struct encoder e;
    s->job.film.kind = kind;
    if (!find_beside_drivers("film-painter", painter)) {
        fprintf(stderr,
                "steve-replay: film-painter, which draws films, is not in the folder of the drivers\n");
        return false;
    }
    if (!encoder_start(&e, painter, path, kind != FILM_MOVIE, o->width, o->height, o->fps))
        return false;
    enum job_status status = session_run(s, JOB_FILM, 0, e.scenes);
    *frames = s->shared ? s->shared->frames : 0;
    bool good = status != STATUS_FAILED && *frames > 0;
    bool written = encoder_finish(&e, good);
    if (!good)
        session_complain(s);
    return good && written;
}

static const char *unit_of(const struct film_size *f)
{
    return f->time == FILM_OPS ? "operations" : film_time_names[f->time];
}

static void print_json(const struct session *s, const char *path, uint64_t frames, bool whole)
{
    const struct film_size *f = &s->job.film;
    printf("{\"driver\": ");
    json_string(stdout, s->info.name);
    printf(", \"file\": ");
    json_string(stdout, path);
    printf(", \"frames\": %" PRIu64 ", \"operations\": %" PRIu64 ", \"%s_per_frame\": %" PRIu64
           ", \"layout\": \"%s\", \"color\": \"%s\", \"extent\": %" PRIu64 ", \"strip\": %" PRIu64
           ", \"heap_size\": %" PRIu64 ", \"complete\": %s}\n",
           frames, s->job.total_ops, unit_of(f), f->per_frame, cell_layout_names[f->layout],
           film_colour_names[f->colour], f->extent, f->most, s->job.heap, whole ? "true" : "false");
}

static void print_result(const struct session *s, const char *path, uint64_t frames)
{
    bool whole = s->shared->status == STATUS_DONE;
    if (s->options->json)
        print_json(s, path, frames, whole);
    else if (!s->options->quiet && s->job.film.kind != FILM_MOVIE)
        printf("%s: %s%s\n", s->info.name, path, whole ? "" : ", up to where memory ran out");
    else if (!s->options->quiet)
        printf("%s: %" PRIu64 " frames of %" PRIu64 " %s each in %s%s\n", s->info.name, frames,
               s->job.film.per_frame, unit_of(&s->job.film), path,
               whole ? "" : ", up to where memory ran out");
}

static bool make_and_print(struct session *s, const char *path, enum film_kind kind)
{
    uint64_t frames;
    if (!make(s, path, kind, &frames))
        return false;
    print_result(s, path, frames);
    return true;
}

/* The name of a still picture for an operation: NAME-OP.png if there are several. */
static const char *still_name(const struct options *o, uint64_t op, char *room, size_t size)
{
    if (o->at_count < 2)
        return o->still;
    snprintf(room, size, "%.*s-%" PRIu64 ".png", (int)strlen(o->still) - 4, o->still, op);
    return room;
}

/* Check that all files can be written, before the long runs. EXIT_CONTINUE: they can; otherwise the exit status. */
static int check_names(const struct session *s, const char *film)
{
    const struct options *o = s->options;
    const char *const inputs[] = {o->ops, s->job.driver, o->sites, NULL};
    const enum outfile_kind picture = o->force ? OUTFILE_ANY : OUTFILE_PICTURE;
    char room[4096];
    int status =
        film ? encoder_can_write(film, inputs, o->force ? OUTFILE_ANY : OUTFILE_FILM) : EXIT_CONTINUE;
    for (unsigned i = 0; o->still && status == EXIT_CONTINUE && (i < o->at_count || i == 0); i++)
        status = encoder_can_write(still_name(o, o->at[i], room, sizeof room), inputs, picture);
    return status == EXIT_CONTINUE && o->poster ? encoder_can_write(o->poster, inputs, picture) : status;
}

static bool make_stills(struct session *s)
{
    const struct options *o = s->options;
    char room[4096];
    uint64_t last = s->job.total_ops;
    for (unsigned i = 0; i < o->at_count || i == 0; i++) {
        uint64_t op = o->at_count ? o->at[i] : last;
        s->job.film.at = op < last ? op : last;
        if (!make_and_print(s, still_name(o, op, room, sizeof room), FILM_STILL))
            return false;
    }
    return true;
}

static bool make_poster(struct session *s, const char *path)
{
    uint64_t columns = (uint64_t)geometry_of_poster(&s->job.film).columns;
    s->job.film.per_frame = at_least_1((s->job.film.total + columns - 1) / columns);
    return make_and_print(s, path, FILM_POSTER);
}

static int make_files(struct session *s, const char *film)
{
    const struct options *o = s->options;
    int status = survey(s);
    if (status == EXIT_BAD || s->job.total_ops == 0)
        return status;
    if (film && !make_and_print(s, film, FILM_MOVIE))
        return EXIT_BAD;
    if (o->still && !make_stills(s))
        return EXIT_BAD;
    return !o->poster || make_poster(s, o->poster) ? status : EXIT_BAD;
}

int command_memplot(const struct options *o)
{
    struct session s;
    char room[4096];
    const char *film = film_name(o, room, sizeof room);
    if (!good_name(film, false) || !good_name(o->still, true) || !good_name(o->poster, true))
        return EXIT_USAGE;
    if ((o->colour == FILM_SITE) != (o->sites != NULL)) {
        fprintf(stderr,
                "steve-replay: --color=site and --sites=FILE belong together; `steve animate --color site` "
                "makes the file from a memtrace\nTry 'steve-replay --help'.\n");
        return EXIT_USAGE;
    }
    if (!encoder_there())
        return EXIT_BAD;
    int status = session_open(&s, o);
    if (status == EXIT_CONTINUE && o->time == FILM_INSTRUCTIONS && !s.plan.facts.schedule.times) {
        fprintf(stderr, "steve-replay: %s: has no instructions: make it again by steve ops --times\n",
                o->ops);
        status = EXIT_BAD;
    }
    if (status == EXIT_CONTINUE && o->sites && !sites_read(o->sites, &s.job))
        status = EXIT_BAD;
    if (status == EXIT_CONTINUE && (status = check_names(&s, film)) == EXIT_CONTINUE)
        status = make_files(&s, film);
    session_close(&s);
    return status;
}
