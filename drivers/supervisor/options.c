/* options.c - the command line of steve-replay; see options.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/supervisor/options.h"
#include "drivers/base/numbers.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char s_help[] =
    "Usage: steve-replay --list [--json]\n"
    "       steve-replay --peakmem OPS [--json]\n"
    "       steve-replay --allocator NAME|PATH --allocstats OPS -o RESULT [options]\n"
    "       steve-replay --allocator NAME|PATH --allocstats OPS RESULT KILLPERCENT OPLIMIT PEAKMEM\n"
    "                    THEORETICAL_HEAP_SIZE\n"
    "       steve-replay --allocator NAME|PATH --min-heap OPS [--json]\n"
    "       steve-replay --allocator NAME|PATH --memplot OPS [HEAP] [-o FILM] [--still PNG] [options]\n"
    "\n"
    "Replay an ops or lockops file on a real allocator in a heap of a given size.\n"
    "\n"
    "  -a, --allocator=NAME|PATH  the driver; --list names them\n"
    "  -o, --output=FILE          result file, or film (.mp4, .avi, .mkv, .webm)\n"
    "      --heap=BYTES|4x        size of the heap, in bytes (K, M, G) or times the live peak\n"
    "                             (default 4x)\n"
    "      --killpercent=K        at the end of the file free K%% of the live blocks at random and go on\n"
    "                             with a new round, until out of memory (default 0: one round)\n"
    "      --rounds=N             stop after so many rounds (default 100)\n"
    "      --seed=S               of that random choice (default 1)\n"
    "      --points=N             data points at most (default 3000)\n"
    "      --passes=N             timed runs, each in a fresh process; medians are shown (default 3,\n"
    "                             but none after one of 3 s)\n"
    "      --touch=none|first|pages|all\n"
    "                             write to each new block: not, its first byte, once per page, all of it\n"
    "                             (default pages)\n"
    "      --accesses=yes|no      also do the reads and writes of the file, outside of single timings\n"
    "                             (default: in films and pictures only)\n"
    "      --threads=replay|merge the operations of all threads in one (merge, the default), or besides on\n"
    "                             real threads: needs a file made by steve ops --threads\n"
    "      --check                fill blocks with patterns, compare them when they are freed and at the end;\n"
    "                             find blocks that overlap or are not aligned to 8 bytes\n"
    "      --timeout=SECONDS      end an allocator that does nothing for so long (default 60, 0: never)\n"
    "      --still=FILE.png       picture of the heap after the last operation, or those of --at\n"
    "      --at=OP[,OP...]        after these operations, numbered from 1; if several: FILE-OP.png\n"
    "      --poster=FILE.png      picture of the whole replay: address upwards, time to the right\n"
    "      --layout=rows|hilbert  how addresses lie in film and picture (default rows)\n"
    "      --time=ops|bytes|instructions\n"
    "                             what a frame has as much of as any other: operations, allocated bytes, or\n"
    "                             instructions of the program (of a file made by steve ops --times)\n"
    "      --extent=BYTES         draw so much of the heap (default: as far as blocks lie)\n"
    "      --strip=BYTES          full height of the strip in film and picture (default: the most bytes "
    "that\n"
    "                             are live or resident)\n"
    "      --size=WxH             of film and picture (default 1280x720)\n"
    "      --fps=N                frames per second (default 25)\n"
    "      --frames=N             frames at most (default 300)\n"
    "      --json                 machine-readable output\n"
    "  -q, --quiet                no progress, no summary\n"
    "  -h, --help   -V, --version\n"
    "\n"
    "Exit status: 0 done, 1 bad input or failure, 2 wrong usage or the heap is too small.\n";

enum {
    PEAKMEM = 256,
    ALLOCSTATS,
    MEMPLOT,
    MIN_HEAP,
    LIST,
    HEAP,
    KILL,
    ROUNDS,
    SEED,
    POINTS,
    PASSES,
    TOUCH,
    THREADS,
    ACCESSES,
    AT,
    POSTER,
    LAYOUT,
    TIME,
    EXTENT,
    STRIP,
    CHECK,
    TIMEOUT,
    STILL,
    SIZE,
    FPS,
    FRAMES,
    JSON
};

static const struct option s_options[] = {
    {"peakmem", no_argument, NULL, PEAKMEM},
    {"allocstats", no_argument, NULL, ALLOCSTATS},
    {"memplot", no_argument, NULL, MEMPLOT},
    {"min-heap", no_argument, NULL, MIN_HEAP},
    {"list", no_argument, NULL, LIST},
    {"allocator", required_argument, NULL, 'a'},
    {"output", required_argument, NULL, 'o'},
    {"heap", required_argument, NULL, HEAP},
    {"killpercent", required_argument, NULL, KILL},
    {"rounds", required_argument, NULL, ROUNDS},
    {"seed", required_argument, NULL, SEED},
    {"points", required_argument, NULL, POINTS},
    {"passes", required_argument, NULL, PASSES},
    {"touch", required_argument, NULL, TOUCH},
    {"threads", required_argument, NULL, THREADS},
    {"accesses", required_argument, NULL, ACCESSES},
    {"at", required_argument, NULL, AT},
    {"poster", required_argument, NULL, POSTER},
    {"layout", required_argument, NULL, LAYOUT},
    {"time", required_argument, NULL, TIME},
    {"extent", required_argument, NULL, EXTENT},
    {"strip", required_argument, NULL, STRIP},
    {"check", no_argument, NULL, CHECK},
    {"timeout", required_argument, NULL, TIMEOUT},
    {"still", required_argument, NULL, STILL},
    {"size", required_argument, NULL, SIZE},
    {"fps", required_argument, NULL, FPS},
    {"frames", required_argument, NULL, FRAMES},
    {"json", no_argument, NULL, JSON},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

__attribute__((format(printf, 1, 2))) static int wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("steve-replay: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\nTry 'steve-replay --help'.\n", stderr);
    va_end(args);
    return EXIT_USAGE;
}

static int set_command(struct options *o, enum command command)
{
    if (o->command != COMMAND_NONE && o->command != command)
        return wrong("only one of --peakmem, --allocstats, --min-heap, --memplot and --list");
    o->command = command;
    return -1;
}

static int set_number(uint32_t *out, const char *what, const char *text, uint64_t least, uint64_t most)
{
    uint64_t value;
    if (!number_read(text, &value) || value < least || value > most)
        return wrong("%s: '%s' is not a number from %llu to %llu", what, text, (unsigned long long)least,
                     (unsigned long long)most);
    *out = (uint32_t)value;
    return -1;
}

static int set_large(uint64_t *out, const char *what, const char *text, uint64_t least)
{
    if (!number_read(text, out) || *out < least)
        return wrong("%s: '%s' is not a number of at least %llu", what, text, (unsigned long long)least);
    return -1;
}

static int set_heap(struct options *o, const char *text)
{
    if (factor_read(text, &o->heap_factor) || (bytes_read(text, &o->heap) && o->heap))
        return -1;
    return wrong("heap '%s' is neither a number of bytes (like 262144 or 64M) nor a factor (like 4x)", text);
}

static int set_touch(struct options *o, const char *text)
{
    for (int i = 0; i < TOUCHES; i++) {
        if (strcmp(text, touch_names[i]) == 0) {
            o->touch = (enum touch)i;
            return -1;
        }
    }
    return wrong("--touch: '%s' is not none, first, pages or all", text);
}

static int set_accesses(struct options *o, const char *text)
{
    o->accesses = strcmp(text, "yes") == 0 ? ACCESSES_YES : ACCESSES_NO;
    if (o->accesses == ACCESSES_NO && strcmp(text, "no") != 0)
        return wrong("--accesses: '%s' is not yes or no", text);
    return -1;
}

static int set_layout(struct options *o, const char *text)
{
    for (int i = 0; i < LAYOUTS; i++) {
        if (strcmp(text, layout_names[i]) == 0) {
            o->layout = (enum layout)i;
            return -1;
        }
    }
    return wrong("--layout: '%s' is not rows or hilbert", text);
}

static int set_time(struct options *o, const char *text)
{
    for (int i = 0; i < FILM_TIMES; i++) {
        if (strcmp(text, film_time_names[i]) == 0) {
            o->time = (enum film_time)i;
            return -1;
        }
    }
    return wrong("--time: '%s' is not ops, bytes or instructions", text);
}

/* A list of numbers with commas. */
static int set_at(struct options *o, const char *text)
{
    char copy[1024], *rest = copy, *one;
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return wrong("--at: too long");
    while ((one = strsep(&rest, ","))) {
        if (o->at_count == MOST_STILLS || !number_read(one, &o->at[o->at_count]) || !o->at[o->at_count])
            return wrong("--at: '%s': from 1 to %d numbers from 1 on, with commas", text, MOST_STILLS);
        o->at_count++;
    }
    return -1;
}

static int set_bytes(uint64_t *out, const char *what, const char *text)
{
    if (bytes_read(text, out) && *out)
        return -1;
    return wrong("%s: '%s' is not a number of bytes (like 262144 or 64M)", what, text);
}

static int set_size(struct options *o, const char *text)
{
    int used = 0;
    if (sscanf(text, "%5ux%5u%n", &o->width, &o->height, &used) != 2 || text[used])
        return wrong("--size: '%s' is not like 1280x720", text);
    if (o->width < 320 || o->height < 200 || o->width > 7680 || o->height > 4320 || o->width % 2 ||
        o->height % 2)
        return wrong("--size: %s: from 320x200 to 7680x4320, even numbers", text);
    return -1;
}

static int set_threads(struct options *o, const char *text)
{
    o->threads = strcmp(text, "replay") == 0;
    return o->threads || strcmp(text, "merge") == 0 ? -1
                                                    : wrong("--threads: '%s' is not replay or merge", text);
}

static int set_kill(struct options *o, const char *text)
{
    uint64_t k;
    if (!number_read(text, &k) || (k > 100 && k < 100000))
        return wrong("killpercent '%s' is not 0 to 100 (or 100000: one round)", text);
    o->kill_percent = k >= 100000 ? 0 : (uint32_t)k;
    return -1;
}

static int show_version(void)
{
    puts("steve-replay (" PACKAGE_NAME ") " PACKAGE_VERSION);
    return EXIT_DONE;
}

static int show_help(void)
{
    printf(s_help);
    return EXIT_DONE;
}

static int set_flag(struct options *o, int c)
{
    switch (c) {
    case 'q':
        o->quiet = true;
        return -1;
    case JSON:
        o->json = true;
        return -1;
    case CHECK:
        o->check = true;
        return -1;
    case 'h':
        return show_help();
    case 'V':
        return show_version();
    default:
        return wrong("wrong usage");
    }
}

static int set_drawing(struct options *o, int c, const char *text)
{
    switch (c) {
    case AT:
        return set_at(o, text);
    case POSTER:
        o->poster = text;
        return -1;
    case LAYOUT:
        return set_layout(o, text);
    case TIME:
        return set_time(o, text);
    case EXTENT:
        return set_bytes(&o->extent, "--extent", text);
    case STRIP:
        return set_bytes(&o->strip, "--strip", text);
    case SIZE:
        return set_size(o, text);
    case FPS:
        return set_number(&o->fps, "--fps", text, 1, 240);
    case FRAMES:
        return set_large(&o->frames, "--frames", text, 1);
    default:
        return set_flag(o, c);
    }
}

static int set_value(struct options *o, int c, const char *text)
{
    switch (c) {
    case 'a':
        o->allocator = text;
        return -1;
    case 'o':
        o->output = text;
        return -1;
    case STILL:
        o->still = text;
        return -1;
    case HEAP:
        return set_heap(o, text);
    case KILL:
        return set_kill(o, text);
    case ROUNDS:
        return set_number(&o->rounds, "--rounds", text, 1, UINT32_MAX);
    case SEED:
        return set_large(&o->seed, "--seed", text, 0);
    case POINTS:
        return set_large(&o->points, "--points", text, 1);
    case PASSES:
        o->passes_given = true;
        return set_number(&o->passes, "--passes", text, 1, 99);
    case TOUCH:
        return set_touch(o, text);
    case TIMEOUT:
        return set_number(&o->timeout, "--timeout", text, 0, 1000000);
    case THREADS:
        return set_threads(o, text);
    case ACCESSES:
        return set_accesses(o, text);
    default:
        return set_drawing(o, c, text);
    }
}

static int set(struct options *o, int c, const char *text)
{
    switch (c) {
    case PEAKMEM:
        return set_command(o, COMMAND_PEAKMEM);
    case ALLOCSTATS:
        return set_command(o, COMMAND_ALLOCSTATS);
    case MEMPLOT:
        return set_command(o, COMMAND_MEMPLOT);
    case MIN_HEAP:
        return set_command(o, COMMAND_MIN_HEAP);
    case LIST:
        return set_command(o, COMMAND_LIST);
    default:
        return set_value(o, c, text);
    }
}

/* OPS RESULT KILLPERCENT OPLIMIT PEAKMEM THEORETICAL_HEAP_SIZE */
static int legacy_form(struct options *o, char **argument)
{
    int r;
    o->legacy = true;
    o->passes = 1; /* each call adds one record: thousands of calls make one file */
    o->output = argument[1];
    if ((r = set_kill(o, argument[2])) != -1 ||
        (r = set_large(&o->op_limit, "OPLIMIT", argument[3], 0)) != -1 ||
        (r = set_large(&o->heap, "PEAKMEM", argument[4], 1)) != -1)
        return r;
    return set_large(&o->theoretical, "THEORETICAL_HEAP_SIZE", argument[5], 0);
}

static int set_arguments(struct options *o, int n, char **argument)
{
    if (o->command == COMMAND_LIST)
        return n == 0 ? -1 : wrong("--list takes no file");
    if (n == 0)
        return wrong("which ops file?");
    o->ops = argument[0];
    if (o->command == COMMAND_ALLOCSTATS && n == 6)
        return legacy_form(o, argument);
    if (o->command == COMMAND_MEMPLOT && n == 2)
        return set_heap(o, argument[1]);
    if (n > 1)
        return wrong("too many or too few arguments from '%s' on", argument[1]);
    return -1;
}

static int check_whole(const struct options *o)
{
    if (o->command == COMMAND_NONE)
        return wrong("what to do? --peakmem, --allocstats, --min-heap, --memplot or --list");
    if (o->command != COMMAND_PEAKMEM && o->command != COMMAND_LIST && !o->allocator)
        return wrong("which allocator? --allocator=NAME; steve-replay --list names them");
    if (o->command == COMMAND_MIN_HEAP && (o->heap || o->heap_factor > 0 || o->kill_percent))
        return wrong("--min-heap finds the heap for one round: no --heap and no --killpercent");
    if (o->threads && (o->command != COMMAND_ALLOCSTATS || o->kill_percent || o->legacy))
        return wrong("--threads=replay goes with --allocstats -o RESULT and one round only");
    if (o->time == FILM_INSTRUCTIONS && o->kill_percent)
        return wrong("--time=instructions is that of one round: no --killpercent");
    if (o->at_count && !o->still)
        return wrong("--at: the pictures' name? --still=FILE.png");
    if (o->command == COMMAND_ALLOCSTATS && !o->output)
        return wrong("where to? -o RESULT");
    return -1;
}

int options_read(struct options *o, int argc, char **argv)
{
    int c, r;
    *o = (struct options){.points = 3000,
                          .frames = 300,
                          .seed = 1,
                          .rounds = 100,
                          .passes = 3,
                          .timeout = 60,
                          .width = 1280,
                          .height = 720,
                          .fps = 25,
                          .touch = TOUCH_PAGES};
    opterr = 0;
    while ((c = getopt_long(argc, argv, "a:o:qhV", s_options, NULL)) != -1) {
        r = c == '?' ? wrong("unknown or incomplete option '%s'", argv[optind - 1]) : set(o, c, optarg);
        if (r != -1)
            return r;
    }
    if (o->command != COMMAND_NONE && (r = set_arguments(o, argc - optind, argv + optind)) != -1)
        return r;
    return check_whole(o);
}
