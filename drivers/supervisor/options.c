/* options.c - parses the command line of steve-replay.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/supervisor/options.h"
#include "drivers/base/numbers.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char s_usage[] =
    "Usage: steve-replay --list [--json]\n"
    "       steve-replay --peakmem OPS [--json]\n"
    "       steve-replay --allocator NAME|PATH --allocstats OPS -o RESULT [options]\n"
    "       steve-replay --allocator NAME|PATH --allocstats OPS RESULT KILLPERCENT OPLIMIT PEAKMEM\n"
    "                    THEORETICAL_HEAP_SIZE\n"
    "       steve-replay --allocator NAME|PATH --min-heap OPS [--json]\n"
    "       steve-replay --allocator NAME|PATH --check OPS [--fail-nth=N|each] [--json]\n"
    "       steve-replay --allocator NAME|PATH --measure OPS [--heap=BYTES|4x] [--pace=MS]\n"
    "       steve-replay --allocator NAME|PATH --places OPS -o FILE [--at=OP]\n"
    "       steve-replay --system OPS [--latency] [--pace=MS] [--threads=replay] [--keep-plan=FILE]\n"
    "       steve-replay --run -o RESULT -- PROGRAM [ARGUMENT...]\n"
    "       steve-replay --allocator NAME|PATH --memplot OPS [HEAP] [-o FILM] [--still PNG] [options]\n"
    "\n"
    "Replay an ops or lockops file on a real allocator in a heap of a given size.\n"
    "\n";

static const char s_end_of_help[] =
    "  -h, --help   -V, --version\n"
    "\n"
    "Exit status: 0 done, 1 bad input or failure, 2 wrong usage or the heap is too small.\n";

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

/* Read a number from `least` to `most`; `what` names it in the message. */
static int set_number(uint32_t *out, const char *what, const char *text, uint64_t least, uint64_t most)
{
    uint64_t value;
    if (!number_read(text, &value) || value < least || value > most)
        return wrong("%s: '%s' is not a number from %llu to %llu", what, text, (unsigned long long)least,
                     (unsigned long long)most);
    *out = (uint32_t)value;
    return OPTIONS_GOOD;
}

/* The same without an upper bound, in 64 bits. */
static int set_large(uint64_t *out, const char *what, const char *text, uint64_t least)
{
    if (!number_read(text, out) || *out < least)
        return wrong("%s: '%s' is not a number of at least %llu", what, text, (unsigned long long)least);
    return OPTIONS_GOOD;
}

static int set_bytes(uint64_t *out, const char *what, const char *text)
{
    if (bytes_read(text, out) && *out)
        return OPTIONS_GOOD;
    return wrong("%s: '%s' is not a number of bytes (like 262144 or 64M)", what, text);
}

static int set_heap(struct options *o, const char *text)
{
    if (factor_read(text, &o->heap_factor) || (bytes_read(text, &o->heap) && o->heap))
        return OPTIONS_GOOD;
    return wrong("heap '%s' is neither a number of bytes (like 262144 or 64M) nor a factor (like 4x)", text);
}

/* Read a list of numbers separated by commas. */
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
    return OPTIONS_GOOD;
}

static int set_size(struct options *o, const char *text)
{
    int used = 0;
    if (sscanf(text, "%5ux%5u%n", &o->width, &o->height, &used) != 2 || text[used])
        return wrong("--size: '%s' is not like 1280x720", text);
    if (o->width < 320 || o->height < 200 || o->width > 7680 || o->height > 4320 || o->width % 2 ||
        o->height % 2)
        return wrong("--size: %s: from 320x200 to 7680x4320, even numbers", text);
    return OPTIONS_GOOD;
}

static int set_kill(struct options *o, const char *text)
{
    uint64_t k;
    if (!number_read(text, &k) || (k > 100 && k < 100000))
        return wrong("killpercent '%s' is not 0 to 100 (or 100000: one round)", text);
    o->kill_percent = k >= 100000 ? 0 : (uint32_t)k;
    return OPTIONS_GOOD;
}

static int set_fail_nth(struct options *o, const char *text)
{
    if (strcmp(text, "each") == 0)
        o->fail_nth = FAIL_EACH;
    else if (!number_read(text, &o->fail_nth) || !o->fail_nth)
        return wrong("--fail-nth: '%s' is neither a number of at least 1 nor each", text);
    return OPTIONS_GOOD;
}

static int set_pace(struct options *o, const char *text)
{
    uint64_t milliseconds;
    if (!number_read(text, &milliseconds) || milliseconds < 1 || milliseconds > 86400000)
        return wrong("--pace: '%s' is not a number of milliseconds from 1 to 86400000", text);
    o->pace = milliseconds * 1000000;
    return OPTIONS_GOOD;
}

static int show_version(void)
{
    puts("steve-replay (" PACKAGE_NAME ") " PACKAGE_VERSION);
    return EXIT_DONE;
}

static int show_help(void);

/* The kind of an option's argument. It determines the type of its field in struct options. */
enum kind {
    COMMAND, /* no argument; `least` is the enum command */
    FLAG,    /* no argument; bool */
    TEXT,    /* const char * */
    NUMBER,  /* uint32_t from `least` to `most` */
    LARGE,   /* uint64_t from `least` on */
    BYTES,   /* uint64_t, with a unit, not 0 */
    CHOICE,  /* one of the words of `argument`: an enum whose value for the first word is `least` */
    OTHER,   /* anything else: `set` reads it */
    SHOW     /* no argument; `show` prints something, and its result is the exit status */
};

/* An option. Rows with `help` are shown by --help, in this order; its lines are separated by newlines. */
struct specification {
    const char *name;
    char letter; /* 0 = none */
    enum kind kind;
    const char *argument; /* as --help shows it; NULL = none */
    size_t field;         /* offset in struct options */
    uint64_t least, most;
    const char *help;
    int (*set)(struct options *o, const char *text);
    int (*show)(void);
};

#define FIELD(name) .field = offsetof(struct options, name)

/* clang-format off */
static const struct specification s_options[] = {
    {"peakmem", .kind = COMMAND, .least = COMMAND_PEAKMEM},
    {"allocstats", .kind = COMMAND, .least = COMMAND_ALLOCSTATS},
    {"memplot", .kind = COMMAND, .least = COMMAND_MEMPLOT},
    {"min-heap", .kind = COMMAND, .least = COMMAND_MIN_HEAP},
    {"measure", .kind = COMMAND, .least = COMMAND_MEASURE},
    {"places", .kind = COMMAND, .least = COMMAND_PLACES},
    {"system", .kind = COMMAND, .least = COMMAND_SYSTEM},
    {"run", .kind = COMMAND, .least = COMMAND_RUN},
    {"list", .kind = COMMAND, .least = COMMAND_LIST},
    {"allocator", 'a', TEXT, "NAME|PATH", FIELD(allocator),
     .help = "the driver; --list names them"},
    {"output", 'o', TEXT, "FILE", FIELD(output),
     .help = "result file, or film (.mp4, .avi, .mkv, .webm)"},
    {"force", 'f', FLAG, NULL, FIELD(force),
     .help = "replace a file that is no earlier result, too"},
    {"heap", 0, OTHER, "BYTES|4x", .set = set_heap,
     .help = "size of the heap, in bytes (K, M, G) or times the live peak\n"
             "(default 4x)"},
    {"killpercent", 0, OTHER, "K", .set = set_kill,
     .help = "at the end of the file free K% of the live blocks at random and go on\n"
             "with a new round, until out of memory (default 0: one round)"},
    {"rounds", 0, NUMBER, "N", FIELD(rounds), 1, UINT32_MAX,
     "stop after so many rounds (default 100)"},
    {"seed", 0, LARGE, "S", FIELD(seed), 0,
     .help = "of that random choice (default 1)"},
    {"points", 0, LARGE, "N", FIELD(points), 1,
     .help = "data points at most (default 3000)"},
    {"passes", 0, NUMBER, "N", FIELD(passes), 1, 99,
     "timed runs, each in a fresh process; medians are shown (default 3,\n"
     "but none after one of 3 s)"},
    {"touch", 0, CHOICE, "none|first|pages|all", FIELD(touch), TOUCH_NONE,
     .help = "write to each new block: not, its first byte, once per page, all of it\n"
             "(default pages)"},
    {"accesses", 0, CHOICE, "yes|no", FIELD(accesses), ACCESSES_YES,
     .help = "also do the reads and writes of the file, outside of single timings\n"
             "(default: in films and pictures only)"},
    {"threads", 0, CHOICE, "replay|merge", FIELD(threads), THREADS_REPLAY,
     .help = "the operations of all threads in one (merge, the default), or besides on\n"
             "real threads: needs a file made by steve ops --threads"},
    {"workers", 0, NUMBER, "N", FIELD(workers), 1, 1024,
     "with --threads=replay: on at most N real threads, each doing the operations\n"
     "of several threads of the file (default: one for each thread of the file)"},
    {"check", 0, FLAG, NULL, FIELD(check),
     .help = "fill blocks with patterns, compare them when they are freed and at the end;\n"
             "find wrong usable sizes, and blocks that overlap or are not aligned (to 16\n"
             "bytes, or less if the driver says so); without another command only this"},
    {"fail-nth", 0, OTHER, "N|each", .set = set_fail_nth,
     .help = "with --check: refuse the allocator's Nth request for memory after its\n"
             "start; each: every one of them, in a replay of its own"},
    {"latency", 0, FLAG, NULL, FIELD(latency),
     .help = "with --system: also time single operations, in another replay"},
    {"keep-plan", 0, TEXT, "FILE", FIELD(keep_plan),
     .help = "with --system: keep what was read of OPS in FILE, and take it from there in\n"
             "the next replay of the same file, which begins much sooner"},
    {"pace", 0, OTHER, "MS", .set = set_pace,
     .help = "with --system, and the space of --measure: spread the operations over so\n"
             "many milliseconds, as the program did, for what acts after some time"},
    {"timeout", 0, NUMBER, "SECONDS", FIELD(timeout), 0, 1000000,
     "end an allocator that does nothing for so long (default 60, 0: never)"},
    {"still", 0, TEXT, "FILE.png", FIELD(still),
     .help = "picture of the heap after the last operation, or those of --at"},
    {"at", 0, OTHER, "OP[,OP...]", .set = set_at,
     .help = "after these operations, numbered from 1; if several: FILE-OP.png; of\n"
             "--places one (default: when pages have the most bytes without blocks)"},
    {"poster", 0, TEXT, "FILE.png", FIELD(poster),
     .help = "picture of the whole replay: address upwards, time to the right"},
    {"layout", 0, CHOICE, "rows|hilbert", FIELD(layout), 0,
     .help = "how addresses lie in film and picture (default rows)"},
    {"time", 0, CHOICE, "ops|bytes|instructions", FIELD(time), 0,
     .help = "what a frame has as much of as any other: operations, allocated bytes, or\n"
             "instructions of the program (of a file made by steve ops --times)"},
    {"color", 0, CHOICE, "state|age|size|site", FIELD(colour), 0,
     .help = "what the colour of used bytes shows: that they are used, and what happens to\n"
             "them (default), or the age or the size of their blocks, or what made them"},
    {"sites", 0, TEXT, "FILE", FIELD(sites),
     .help = "names of up to 5 sites, an empty line, and for each N of the ops file the\n"
             "digit of its site, for --color=site; steve animate makes it"},
    {"extent", 0, BYTES, "BYTES", FIELD(extent),
     .help = "draw this much of the heap (default: up to the highest block)"},
    {"strip", 0, BYTES, "BYTES", FIELD(strip),
     .help = "full height of the strip in film and picture (default: the most bytes that\n"
             "are live or resident)"},
    {"size", 0, OTHER, "WxH", .set = set_size,
     .help = "of film and picture (default 1280x720)"},
    {"fps", 0, NUMBER, "N", FIELD(fps), 1, 240,
     "frames per second (default 25)"},
    {"frames", 0, LARGE, "N", FIELD(frames), 1,
     .help = "frames at most (default 300)"},
    {"json", 0, FLAG, NULL, FIELD(json),
     .help = "machine-readable output"},
    {"quiet", 'q', FLAG, NULL, FIELD(quiet),
     .help = "no progress, no summary"},
    {"help", 'h', SHOW, .show = show_help},
    {"version", 'V', SHOW, .show = show_version},
};
/* clang-format on */

enum {
    OPTIONS = sizeof s_options / sizeof s_options[0],
    HELP_COLUMN = 29,
    FIRST_VALUE = 256 /* what getopt returns for the first option; letters are below */
};

/* Show an option, and its help from HELP_COLUMN on, in the next line if necessary. */
static void show_option(const struct specification *s)
{
    char letter[] = {'-', s->letter, ',', 0};
    int used = printf("  %-4s--%s%s%s", s->letter ? letter : "", s->name, s->argument ? "=" : "",
                      s->argument ? s->argument : "");
    const char *line = s->help;
    if (used < HELP_COLUMN)
        printf("%*s", HELP_COLUMN - used, "");
    else
        printf("\n%*s", HELP_COLUMN, "");
    for (const char *end; (end = strchr(line, '\n')); line = end + 1)
        printf("%.*s\n%*s", (int)(end - line), line, HELP_COLUMN, "");
    puts(line);
}

static int show_help(void)
{
    fputs(s_usage, stdout);
    for (size_t i = 0; i < OPTIONS; i++)
        if (s_options[i].help)
            show_option(&s_options[i]);
    fputs(s_end_of_help, stdout);
    return EXIT_DONE;
}

static int set_command(struct options *o, enum command command)
{
    if (o->command != COMMAND_NONE && o->command != command)
        return wrong("only one of --peakmem, --allocstats, --min-heap, --measure, --places, --system, --run, "
                     "--memplot and --list");
    o->command = command;
    return OPTIONS_GOOD;
}

/* Write the words of a choice as in a sentence: "a|b|c" becomes "a, b or c". */
static const char *listed(char *to, size_t size, const char *words)
{
    size_t n = 0;
    for (const char *last = strrchr(words, '|'); *words && n + 8 < size; words++)
        if (*words == '|')
            n += (size_t)sprintf(to + n, "%s", words == last ? " or " : ", ");
        else
            to[n++] = *words;
    to[n] = 0;
    return to;
}

static int set_choice(const struct specification *s, unsigned *out, const char *text)
{
    char words[80];
    size_t length = strlen(text);
    unsigned value = (unsigned)s->least;
    for (const char *word = s->argument; word; value++) {
        const char *end = strchr(word, '|');
        if (length == (end ? (size_t)(end - word) : strlen(word)) && memcmp(word, text, length) == 0) {
            *out = value;
            return OPTIONS_GOOD;
        }
        word = end ? end + 1 : NULL;
    }
    return wrong("--%s: '%s' is not %s", s->name, text, listed(words, sizeof words, s->argument));
}

static int set(struct options *o, const struct specification *s, const char *text)
{
    void *field = (char *)o + s->field;
    char what[32];
    snprintf(what, sizeof what, "--%s", s->name);
    switch (s->kind) {
    case COMMAND:
        return set_command(o, (enum command)s->least);
    case FLAG:
        *(bool *)field = true;
        return OPTIONS_GOOD;
    case TEXT:
        *(const char **)field = text;
        return OPTIONS_GOOD;
    case NUMBER:
        return set_number(field, what, text, s->least, s->most);
    case LARGE:
        return set_large(field, what, text, s->least);
    case BYTES:
        return set_bytes(field, what, text);
    case CHOICE:
        return set_choice(s, field, text);
    case OTHER:
        return s->set(o, text);
    case SHOW:
        return s->show();
    }
    return wrong("wrong usage");
}

/* OPS RESULT KILLPERCENT OPLIMIT PEAKMEM THEORETICAL_HEAP_SIZE */
static int legacy_form(struct options *o, char **argument)
{
    int r;
    o->legacy = true;
    o->passes = 1; /* each call adds one record: thousands of calls make one file */
    o->output = argument[1];
    if ((r = set_kill(o, argument[2])) != OPTIONS_GOOD ||
        (r = set_large(&o->op_limit, "OPLIMIT", argument[3], 0)) != OPTIONS_GOOD ||
        (r = set_large(&o->heap, "PEAKMEM", argument[4], 1)) != OPTIONS_GOOD)
        return r;
    return set_large(&o->theoretical, "THEORETICAL_HEAP_SIZE", argument[5], 0);
}

static int set_arguments(struct options *o, int n, char **argument)
{
    if (o->command == COMMAND_LIST)
        return n == 0 ? OPTIONS_GOOD : wrong("--list takes no file");
    if (o->command == COMMAND_RUN) {
        o->words = argument;
        return n ? OPTIONS_GOOD : wrong("--run: which program?");
    }
    if (n == 0)
        return wrong("which ops file?");
    o->ops = argument[0];
    if (o->command == COMMAND_ALLOCSTATS && n == 6)
        return legacy_form(o, argument);
    if (o->command == COMMAND_MEMPLOT && n == 2)
        return set_heap(o, argument[1]);
    if (n > 1)
        return wrong("too many or too few arguments from '%s' on", argument[1]);
    return OPTIONS_GOOD;
}

static bool needs_allocator(enum command c)
{
    return c != COMMAND_PEAKMEM && c != COMMAND_LIST && c != COMMAND_SYSTEM && c != COMMAND_RUN;
}

static int check_whole(const struct options *o)
{
    if (o->command == COMMAND_NONE)
        return wrong(
            "what to do? --peakmem, --allocstats, --min-heap, --check, --measure, --places, --system, "
            "--run, --memplot or --list");
    if (!o->allocator && needs_allocator(o->command))
        return wrong("which allocator? --allocator=NAME; steve-replay --list names them");
    if (o->command == COMMAND_MIN_HEAP && (o->heap || o->heap_factor > 0 || o->kill_percent))
        return wrong("--min-heap finds the heap for one round: no --heap and no --killpercent");
    if (o->command == COMMAND_RUN && !o->output)
        return wrong("--run needs -o RESULT");
    if (o->pace && o->command != COMMAND_SYSTEM && o->command != COMMAND_MEASURE)
        return wrong("--pace goes with --system and --measure");
    if (o->latency && o->command != COMMAND_SYSTEM)
        return wrong("--latency goes with --system");
    if (o->keep_plan && o->command != COMMAND_SYSTEM)
        return wrong("--keep-plan goes with --system");
    if (o->threads == THREADS_REPLAY && o->command == COMMAND_MEASURE && o->pace)
        return wrong("--threads=replay has no --pace");
    if (o->threads == THREADS_REPLAY && o->command == COMMAND_SYSTEM)
        return o->pace || o->latency ? wrong("--threads=replay has no --pace and no --latency")
                                     : OPTIONS_GOOD;
    if (o->threads == THREADS_REPLAY && o->command != COMMAND_MEASURE &&
        (o->command != COMMAND_ALLOCSTATS || o->kill_percent || o->legacy))
        return wrong("--threads=replay goes with --measure, or --allocstats -o RESULT and one round only");
    if (o->workers && o->threads != THREADS_REPLAY)
        return wrong("--workers goes with --threads=replay");
    if (o->fail_nth && o->command != COMMAND_CHECK)
        return wrong("--fail-nth goes with --check OPS, without another command");
    if (o->time == FILM_INSTRUCTIONS && o->kill_percent)
        return wrong("--time=instructions is that of one round: no --killpercent");
    if (o->command == COMMAND_PLACES && (!o->output || o->at_count > 1 || o->kill_percent))
        return wrong("--places needs -o FILE, and has one --at and one round");
    if (o->at_count && !o->still && o->command != COMMAND_PLACES)
        return wrong("--at: the pictures' name? --still=FILE.png");
    if (o->command == COMMAND_ALLOCSTATS && !o->output)
        return wrong("where to? -o RESULT");
    return OPTIONS_GOOD;
}

/* The option that getopt returned as c. */
static const struct specification *option_of(int c)
{
    const struct specification *s = s_options;
    while (c < FIRST_VALUE && s->letter != c)
        s++;
    return c < FIRST_VALUE ? s : &s_options[c - FIRST_VALUE];
}

/* Read the options. Afterwards, getopt's optind is at the first argument. */
static int read_options(struct options *o, int argc, char **argv)
{
    struct option names[OPTIONS + 1] = {{0}};
    char letters[2 * OPTIONS + 1], *letter = letters;
    int c, r = OPTIONS_GOOD;
    for (int i = 0; i < OPTIONS; i++) {
        const struct specification *s = &s_options[i];
        bool takes = s->argument != NULL;
        names[i] = (struct option){s->name, takes ? required_argument : no_argument, NULL, FIRST_VALUE + i};
        if (s->letter)
            letter += sprintf(letter, "%c%s", s->letter, takes ? ":" : "");
    }
    opterr = 0;
    while (r == OPTIONS_GOOD && (c = getopt_long(argc, argv, letters, names, NULL)) != -1)
        r = c == '?' ? wrong("unknown or incomplete option '%s'", argv[optind - 1])
                     : set(o, option_of(c), optarg);
    return r;
}

int options_read(struct options *o, int argc, char **argv)
{
    int r;
    *o = (struct options){.points = 3000,
                          .frames = 300,
                          .seed = 1,
                          .rounds = 100,
                          .timeout = 60,
                          .width = 1280,
                          .height = 720,
                          .fps = 25,
                          .touch = TOUCH_PAGES};
    if ((r = read_options(o, argc, argv)) != OPTIONS_GOOD)
        return r;
    if (o->command == COMMAND_NONE && o->check)
        o->command = COMMAND_CHECK;
    o->passes_given = o->passes > 0;
    o->passes = o->passes_given ? o->passes : 3;
    if (o->command != COMMAND_NONE && (r = set_arguments(o, argc - optind, argv + optind)) != OPTIONS_GOOD)
        return r;
    return check_whole(o);
}
