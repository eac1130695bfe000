/* launcher.c - options, the ring, the collector and its messages, for the commands `ljtrace run` and `ljtrace attach`.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The collector is a child of the command, in a session of its own, so that signals of the terminal do not reach it.
 */
#define _GNU_SOURCE
#include "ljtrace/native/launcher/launcher.h"
#include "ljtrace/protocol/ring_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALLEST = 64 << 10, SAMPLE_MEAN = 512 << 10 /* of --sample without a value */ };

void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("ljtrace: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

long launcher_status(pid_t process, const char *folder, const char *name)
{
    char path[64], line[256];
    const size_t n = strlen(name);
    long number = -1;
    snprintf(path, sizeof path, "/proc/%d/%sstatus", process, folder);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            number = strtol(strrchr(line, '\t'), NULL, 10);
    if (f)
        fclose(f);
    return number;
}

/* -- options -- */

bool launcher_is_number(const char *text, long least, long most)
{
    char *end;
    const long n = strtol(text, &end, 10);
    return end != text && !*end && n >= least && n <= most;
}

bool launcher_size(const char *text, uint64_t least, uint64_t *bytes)
{
    static const char units[] = "kmg";
    char *end;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    *bytes = n << shift;
    return end != text && !errno && text[0] != '-' && !end[unit != NULL] && n <= ULLONG_MAX >> (shift + 4) &&
           *bytes >= least;
}

/* Convert a time with a unit to nanoseconds; 0 is 0. Returns false if it is none, is less than `least`, or too long. */
static bool time_of(const char *text, uint64_t least, uint64_t *nanoseconds)
{
    static const struct {
        const char *name;
        unsigned long long ns;
    } units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    char *end;
    const unsigned long long n = strtoull(text, &end, 10);
    *nanoseconds = 0;
    if (strcmp(text, "0") == 0)
        return true;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && text[0] != '-' && strcmp(end, units[i].name) == 0 &&
            n <= RECORDING_LONGEST_SAMPLE / units[i].ns)
            *nanoseconds = n * units[i].ns;
    return *nanoseconds >= least;
}

/* Store whether the text is the second of these words. Returns false if it is neither. */
static bool word_of(const char *text, const char *no, const char *yes, uint8_t *is_yes)
{
    *is_yes = strcmp(text, yes) == 0;
    return *is_yes || strcmp(text, no) == 0;
}

int launcher_signal(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}};
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].number;
    return 0;
}

/* Add a prefix to the list. It is part of names of C or C++ or Rust, which have no comma and no colon. */
static const char *add_prefix(struct recording *r, const char *prefix)
{
    char *end = r->prefixes + strlen(r->prefixes);
    size_t commas = 0;
    for (const char *at = r->prefixes; *at; at++)
        commas += *at == ',';
    if (!*prefix || strpbrk(prefix, ",:"))
        return "--alloc-prefix takes the beginning of a function's name, such as je_";
    if (commas == RECORDING_PREFIXES || strlen(prefix) + 2 > sizeof r->prefixes - (size_t)(end - r->prefixes))
        return "--alloc-prefix was given too often: 16 prefixes are possible, of 240 characters in all";
    stpcpy(stpcpy(end, prefix), ",");
    return NULL;
}

/* Add a function of a pool, or all of a library, to the list. */
static const char *add_pool(struct recording *r, const char *text)
{
    struct pool_function f;
    char *end = r->pools + strlen(r->pools);
    const char *known = NULL;
    for (size_t i = 0; i < sizeof pool_libraries / sizeof *pool_libraries; i++)
        if (strcmp(text, pool_libraries[i].name) == 0)
            known = pool_libraries[i].functions;
    if (!known && (strchr(text, ';') || !pool_read(text, (uint32_t)strlen(text), &f)))
        return "--pool-fn takes apr, nginx, talloc, postgres, or NAME:WHAT or NAME:WHAT:ARGUMENTS: WHAT is "
               "make, alloc, resize, free, clear, end, move or name; ARGUMENTS are pool, block, size, "
               "count, out, parent, name or _, with a comma between, six at most, and pool=VARIABLE or "
               "size=text";
    if (strlen(known ? known : text) + 2 > sizeof r->pools - (size_t)(end - r->pools))
        return "--pool-fn names too many functions";
    stpcpy(stpcpy(end, known ? known : text), known ? "" : ";");
    return pool_list_is_valid(r->pools) ? NULL : "--pool-fn names too many functions; 64 are possible";
}

void launcher_defaults(struct launcher *l)
{
    l->out = "ljtrace.%p.ljt";
    l->recording = (struct recording){.native = 1, .forks = 1, .depth = 200, .level = 1};
}

const char *launcher_conflict(const struct launcher *l)
{
    const struct recording *r = &l->recording;
    if (r->universe && r->sample_mean)
        return "--universe does not go with --sample: a sample does not know how large the heaps are. "
               "Without --sample, --universe says what holds the objects of Lua";
    if (r->pools[0] && r->sample_mean)
        return "--pool-fn does not go with --sample";
    return r->existing && r->sample_mean ? "--existing-blocks does not go with --sample" : NULL;
}

/* A program that is started has no states at first. */
static const char *set_universe(struct recording *r, const char *value)
{
    if (!r->attached && (!value || strcmp(value, "growing") != 0))
        return "--universe of a program that is started is --universe=growing (at-exit is an option under "
               "Valgrind)";
    r->universe = value ? UNIVERSE_GROWING : UNIVERSE_NOW;
    return !value || strcmp(value, "growing") == 0 ? NULL : "--universe takes no value, or growing";
}

const char *launcher_option(struct launcher *l, const char *name, const char *value)
{
    struct recording *r = &l->recording;
    if (strcmp(name, "out") == 0) {
        l->out = value;
        return *value && strcmp(value, "|") != 0 ? NULL : "--out needs a file name, -, or |COMMAND";
    }
    if (strcmp(name, "stack-depth") == 0) {
        r->depth = (uint32_t)strtoul(value, NULL, 10);
        return launcher_is_number(value, 0, RECORDING_MOST_FRAMES)
                   ? NULL
                   : "--stack-depth takes a number from 0 to 500";
    }
    if (strcmp(name, "alloc-prefix") == 0)
        return add_prefix(r, value);
    if (strcmp(name, "pool-fn") == 0)
        return add_pool(r, value);
    if (strcmp(name, "compress") == 0) {
        r->level = (uint32_t)strtoul(value, NULL, 10);
        return launcher_is_number(value, 1, RECORDING_LEVELS) ? NULL
                                                              : "--compress takes a number from 1 to 19";
    }
    if (strcmp(name, "max-size") == 0)
        return launcher_size(value, SMALLEST, &r->max_size)
                   ? NULL
                   : "--max-size takes a number of bytes, 64k or more, such as 500m or 2g";
    if (strcmp(name, "sample") == 0) {
        r->sample_mean = SAMPLE_MEAN;
        return !value || launcher_size(value, 1, &r->sample_mean)
                   ? NULL
                   : "--sample takes a number of bytes, such as 512k";
    }
    if (strcmp(name, "sample-seed") == 0) {
        r->sample_seed = strtoull(value, NULL, 10);
        return launcher_is_number(value, 1, LONG_MAX) ? NULL : "--sample-seed takes a number, 1 or more";
    }
    if (strcmp(name, "sample-stacks") == 0)
        return time_of(value, RECORDING_SHORTEST_SAMPLE, &r->sample_stacks)
                   ? NULL
                   : "--sample-stacks takes a CPU time with a unit, 100us or "
                     "more, such as 10ms; 0 = no samples";
    if (strcmp(name, "universe") == 0)
        return set_universe(r, value);
    if (strcmp(name, "pages") == 0) {
        r->pages = 1;
        return !value || (time_of(value, RECORDING_SHORTEST_LOOK, &r->pages_every) && r->pages_every)
                   ? NULL
                   : "--pages takes a time with a unit, 10ms or more, such as 1s";
    }
    if (strcmp(name, "pages-signal") == 0) {
        r->pages = 1;
        return (l->pages_signal = launcher_signal(value)) ? NULL : "--pages-signal is USR1, USR2 or HUP";
    }
    if (strcmp(name, "when-full") == 0)
        return word_of(value, "wait", "drop", &r->drops) ? NULL : "--when-full is wait or drop";
    if (strcmp(name, "trace-fork") == 0)
        return word_of(value, "no", "yes", &r->forks) ? NULL : "--trace-fork is yes or no";
    return word_of(value, "first", "last", &r->keep_last) ? NULL : "--keep is first or last";
}

bool launcher_signalled(const struct launcher *l, int signal)
{
    if (!l->pages_signal || signal != l->pages_signal)
        return false;
    __atomic_add_fetch(&l->ring->looks, 1, __ATOMIC_RELEASE);
    return true;
}

bool launcher_part(char *to, size_t room, const char *name)
{
    char self[PATH_MAX];
    const char *started = (const char *)getauxval(AT_EXECFN);
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0)
        self[n] = 0;
    else if (!started || !realpath(started, self)) /* there is no /proc */
        return false;
    *strrchr(self, '/') = 0;
    return snprintf(to, room, "%s/%s", self, name) < (int)room;
}

/* -- descriptors -- */

enum { USED_AT_ONCE = 7, ENOUGH = 64 };

/* Descriptors 0, 1 and 2 that are closed are taken by files that say nothing, and that the program does not inherit. */
static void take_standard(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 || (fd = memfd_create("null", MFD_CLOEXEC)) >= 0)
        if (fd > STDERR_FILENO)
            break;
    if (fd >= 0)
        close(fd);
}

static void raise_limit(const struct rlimit *usual)
{
    const struct rlimit raised = {ENOUGH, usual->rlim_max < ENOUGH ? ENOUGH : usual->rlim_max};
    if (usual->rlim_cur >= ENOUGH || setrlimit(RLIMIT_NOFILE, &raised) == 0) /* root may raise both */
        return;
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){usual->rlim_max, usual->rlim_max});
}

/* Can as many descriptors be opened as a recording needs at the same time? */
static bool has_descriptors(void)
{
    int fds[USED_AT_ONCE], n = 0;
    while (n < USED_AT_ONCE && (fds[n] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        n++;
    for (int i = 0; i < n; i++)
        close(fds[i]);
    return n == USED_AT_ONCE;
}

bool launcher_prepare(struct launcher *l)
{
    take_standard();
    getrlimit(RLIMIT_NOFILE, &l->descriptors);
    raise_limit(&l->descriptors);
    if (has_descriptors())
        return true;
    complain("cannot record: fewer than %d descriptors are left (ulimit -n is %llu); raise the limit",
             USED_AT_ONCE, (unsigned long long)l->descriptors.rlim_cur);
    return false;
}

void launcher_restore(const struct launcher *l)
{
    setrlimit(RLIMIT_NOFILE, &l->descriptors);
}

/* -- the ring -- */

/* How many seccomp filters a process has. Old kernels say only whether there are any. */
static uint32_t filters_of(pid_t process)
{
    const long filters = launcher_status(process, "", "Seccomp_filters");
    return filters >= 0 ? (uint32_t)filters : launcher_status(process, "", "Seccomp") > 0;
}

bool launcher_make_ring(struct launcher *l, pid_t process)
{
    l->ring = ring_memory_new(&l->memfd);
    if (l->ring) {
        l->ring->filters = filters_of(process);
        return true;
    }
    complain("cannot begin the recording: %s; it needs shared memory of at least 516 KiB, 32 MiB if it is to "
             "be fast; "
             "see ulimit -f, -n, -v",
             strerror(errno));
    return false;
}

/* -- the collector -- */

/* In the child: the collector ends with the program, and a write that is refused is an error that it reports. */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE, SIGTSTP, SIGXFSZ};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
}

/* In the child: become the collector. */
static void become_collector(const struct launcher *l, int socket)
{
    char path[PATH_MAX], ring[16], fd[16];
    snprintf(ring, sizeof ring, "%d", fcntl(l->memfd, F_DUPFD, 3));
    snprintf(fd, sizeof fd, "%d", fcntl(socket, F_DUPFD, 3));
    const char *argv[] = {"ljtrace-collector", ring, fd, l->out, NULL};
    setsid();
    unsetenv("LD_PRELOAD");
    unsetenv("LD_AUDIT");
    ignore_signals();
    sigprocmask(SIG_SETMASK, &l->usual, NULL);
    if (launcher_part(path, sizeof path, "ljtrace-collector"))
        execv(path, (char **)argv);
    _exit(LAUNCHER_FAILED);
}

static bool fork_collector(struct launcher *l)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    l->collector = fork();
    if (l->collector == 0)
        become_collector(l, pair[1]);
    close(pair[1]);
    l->socket = pair[0];
    return l->collector > 0;
}

/* Wait until the collector has opened its output. Returns false, after a message, if it cannot. */
static bool wait_until_ready(const struct launcher *l)
{
    char first = 0;
    while (read(l->socket, &first, 1) < 0 && errno == EINTR)
        ;
    if (first == RING_READY)
        return true;
    if (first == RING_BUSY)
        complain("%s is being written by another recording; give another name with --out=FILE", l->out);
    else if (!first)
        complain("the collector did not start; is the installation complete?");
    else {
        fprintf(stderr, "ljtrace: %c", first);
        char rest[600];
        const ssize_t n = read(l->socket, rest, sizeof rest - 1);
        rest[n > 0 ? n : 0] = 0;
        fprintf(stderr, "%s; give a writable file with --out=FILE\n", rest);
    }
    return false;
}

bool launcher_start_collector(struct launcher *l)
{
    const size_t length = strlen(l->out);
    l->recording.text = length > 4 && strcmp(l->out + length - 4, ".txt") == 0;
    l->ring->recording = l->recording;
    if (fork_collector(l))
        return wait_until_ready(l);
    complain("cannot start the collector: %s", strerror(errno));
    return false;
}

void launcher_reap(struct launcher *l, int how)
{
    int status;
    if (l->collector_ended || waitpid(l->collector, &status, how) != l->collector)
        return;
    l->collector_ended = true;
    l->ring->collector = 0; /* the program does not wait for it */
    if (WIFSIGNALED(status))
        complain("the collector was killed by signal %d; the program ran on unrecorded", WTERMSIG(status));
}

void launcher_put_end(const struct launcher *l, enum ring_ended ended, int status)
{
    l->ring->status = status;
    __atomic_store_n(&l->ring->ended, ended, __ATOMIC_RELEASE);
    syscall(SYS_futex, &l->ring->filled, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The memory is also the program's. A line without its end is not yet complete. */
void launcher_show_problems(struct launcher *l)
{
    char lines[RING_PROBLEM_BYTES], *line, *end;
    memcpy(lines, l->ring->problems, sizeof lines);
    lines[sizeof lines - 1] = 0;
    for (line = lines + strnlen(lines, l->problems_shown); (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (*line)
            complain("%s", line);
    }
    l->problems_shown = (size_t)(line - lines);
}

/* Notes are between RING_NOTE, and its last words follow. */
void launcher_show_messages(struct launcher *l)
{
    char bytes[4096], line[1200];
    size_t used = 0;
    bool noting = false;
    ssize_t n;
    while ((n = read(l->socket, bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR))
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] != RING_NOTE && used < sizeof line - 1) {
                line[used++] = bytes[i];
                continue;
            }
            line[used] = 0;
            if (noting)
                complain("%s", line);
            noting = !noting;
            used = 0;
        }
    line[used] = 0;
    if (used)
        complain("%s", line);
    launcher_show_problems(l);
}
