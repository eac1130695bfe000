/* memplot.c - steve-replay --memplot: a film of the heap, and a picture of its end.
 *
 * A first run finds how long the replay is and where in the heap blocks lie; only that part is drawn, with
 * a constant number of operations per frame. If the heap is too small, the film shows all up to there.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/encoder.h"
#include "drivers/json.h"
#include "drivers/modes.h"
#include "drivers/session.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* The documented name of a film: the ops file's with -animation.avi. */
static const char *film_name(const struct options *o, char *room, size_t size)
{
    if (o->output || o->still)
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

/* Said before the long runs, and by us rather than by ffmpeg. */
static bool can_write(const char *path)
{
    bool good = !path || encoder_can_write(path);
    if (!good)
        fprintf(stderr, "steve-replay: %s: cannot be written: %s\n", path, strerror(errno));
    return good;
}

/* How long the run is, and in what part of the heap blocks lie: a space run without data points. */
static int survey(struct session *s)
{
    int status = EXIT_DONE;
    enum board_status space = session_run(s, JOB_SPACE, 0, -1);
    const struct board *b = s->board;
    if (space != STATUS_DONE)
        status = session_complain(s);
    if (!b)
        return EXIT_BAD;
    uint64_t total = b->op_index, frames = s->options->frames;
    s->job.total_ops = total;
    s->job.film = (struct film_size){.width = s->options->width,
                                     .height = s->options->height,
                                     .ops_per_frame = total > frames ? (total + frames - 1) / frames : 1,
                                     .start = b->lowest_block,
                                     .extent = b->highest_block - b->lowest_block};
    return status;
}

/* One file; `*frames` are in it. False: told. */
static bool make(struct session *s, const char *path, bool still, uint64_t *frames)
{
    const struct options *o = s->options;
    struct encoder e;
    s->job.film.still = still;
    if (!encoder_start(&e, path, still, o->width, o->height, o->fps))
        return false;
    enum board_status status = session_run(s, JOB_FILM, 0, e.frames);
    *frames = s->board ? s->board->frames : 0;
    bool good = status != STATUS_FAILED && *frames > 0;
    bool written = encoder_finish(&e, good);
    if (!good)
        session_complain(s);
    return good && written;
}

static void tell(const struct session *s, const char *path, uint64_t frames)
{
    bool whole = s->board->status == STATUS_DONE;
    if (s->options->json) {
        printf("{\"driver\": ");
        json_string(stdout, s->info.name);
        printf(", \"file\": ");
        json_string(stdout, path);
        printf(", \"frames\": %" PRIu64 ", \"operations\": %" PRIu64 ", \"operations_per_frame\": %" PRIu64
               ", \"extent\": %" PRIu64 ", \"heap_size\": %" PRIu64 ", \"complete\": %s}\n",
               frames, s->job.total_ops, s->job.film.ops_per_frame, s->job.film.extent, s->job.heap,
               whole ? "true" : "false");
    } else if (!s->options->quiet) {
        printf("%s: %" PRIu64 " frames of %" PRIu64 " operations each in %s%s\n", s->info.name, frames,
               s->job.film.ops_per_frame, path, whole ? "" : ", up to where memory ran out");
    }
}

static int make_files(struct session *s, const char *film)
{
    const char *still = s->options->still;
    uint64_t frames;
    int status = survey(s);
    if (status == EXIT_BAD || s->job.total_ops == 0)
        return status;
    if (film) {
        if (!make(s, film, false, &frames))
            return EXIT_BAD;
        tell(s, film, frames);
    }
    if (still) {
        if (!make(s, still, true, &frames))
            return EXIT_BAD;
        tell(s, still, frames);
    }
    return status;
}

int mode_memplot(const struct options *o)
{
    struct session s;
    char room[4096];
    const char *film = film_name(o, room, sizeof room);
    if (!good_name(film, false) || !good_name(o->still, true))
        return EXIT_USAGE;
    int status = session_open(&s, o);
    if (status == -1)
        status = can_write(film) && can_write(o->still) ? make_files(&s, film) : EXIT_BAD;
    session_close(&s);
    return status;
}
