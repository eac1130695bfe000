/* options.h - the command line of steve-replay.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_OPTIONS_H
#define DRIVERS_SUPERVISOR_OPTIONS_H

#include "drivers/base/exit_status.h"
#include "drivers/base/shared.h"

#include <stdbool.h>
#include <stdint.h>

enum { MOST_STILLS = 64 };
#define FAIL_EACH UINT64_MAX

enum command {
    COMMAND_NONE,
    COMMAND_PEAKMEM,
    COMMAND_ALLOCSTATS,
    COMMAND_MEMPLOT,
    COMMAND_MIN_HEAP,
    COMMAND_PLACES,
    COMMAND_MEASURE,
    COMMAND_CHECK, /* --check without another command */
    COMMAND_SYSTEM,
    COMMAND_RUN,
    COMMAND_LIST
};

struct options {
    enum command command;
    const char *allocator; /* NULL: not given */
    const char *ops;       /* the ops file */
    const char *output;    /* -o or RESULT, NULL: none */
    const char *still;     /* --still */
    const char *poster;    /* --poster */
    bool json, quiet, check, latency;
    bool force;           /* replace files that are no earlier results, too */
    bool legacy;          /* --allocstats with its six arguments */
    uint64_t op_limit;    /* OPLIMIT */
    uint64_t theoretical; /* THEORETICAL_HEAP_SIZE */
    uint64_t heap;        /* bytes, 0: not given */
    double heap_factor;   /* times the live peak, 0: not given */
    enum { ACCESSES_DEFAULT, ACCESSES_YES, ACCESSES_NO } accesses;
    enum { THREADS_DEFAULT, THREADS_REPLAY, THREADS_MERGE } threads;
    enum cell_layout layout;
    enum film_time time;
    enum film_colour colour;
    const char *keep_plan; /* --keep-plan, NULL: none */
    const char *sites;     /* --sites: the file of sites, of --color=site */
    uint64_t extent;       /* bytes of heap to draw, 0: those that have blocks */
    uint64_t strip;        /* bytes at the full height of the strip, 0: the maximum that occurs */
    uint64_t at[MOST_STILLS];
    unsigned at_count;
    uint64_t points, frames, seed;
    uint64_t pace;     /* nanoseconds that --system takes at least */
    char **words;      /* --run: the program and its arguments */
    bool passes_given; /* otherwise long passes are not repeated */
    uint32_t kill_percent, rounds, passes, timeout, width, height, fps;
    enum touch touch;
    uint32_t
        workers; /* --workers: real threads of a replay on threads at most, 0: one for each of the file */
    uint64_t fail_nth; /* --fail-nth, 0: not given; FAIL_EACH: each request in turn */
};

/* The result of options_read if the program is to continue. */
enum { OPTIONS_GOOD = -1 };

/* Fill in *o. Returns OPTIONS_GOOD, or an exit status: help was shown, or usage was wrong. */
int options_read(struct options *o, int argc, char **argv);

#endif
