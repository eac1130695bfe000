/* run.c - the command `ljtrace run`: starts the collector and the program, and waits for both.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The program is a child of this process, which does nothing but pass signals on, and ends in the same way as the program
 * when the file is complete. The collector is another child, in a session of its own, so that signals of the terminal do
 * not reach it.
 */
#define _GNU_SOURCE
#include "config.h"
#include "ljtrace/native/session.h"
#include "ljtrace/protocol/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/futex.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exit statuses of this command itself, as those of env and nohup. */
enum { FAILED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };
enum { MOST_DEPTH = 500, SMALLEST = 64 << 10 };

struct options {
    const char *out, *depth, *level, *max_size, *keep;
    int forks; /* 1 = forked children are recorded, too */
};

/* The processes and what connects them. */
struct run {
    struct options options;
    char **program;
    struct ring_header *ring;
    int memfd, socket; /* socket: to the collector */
    pid_t child, collector;
    bool collector_ended;
    int failure;           /* from the child: the error if it cannot execute the program */
    int gate;              /* writing to it lets the child execute the program */
    sigset_t usual;        /* signals that were blocked before, */
    bool ignores_children; /* and whether SIGCHLD was ignored: the program inherits both */
};

static const char s_usage[] =
    "usage: ljtrace run [OPTIONS] PROGRAM [ARGUMENTS]\n"
    "Record all heap events of a program at native speed, without Valgrind.\n"
    "\n"
    "  --out=FILE         write the memtrace to FILE (ljtrace.%p.ljt); %p is the process id,\n"
    "                     %q{VAR} the value of an environment variable; - is standard output\n"
    "  --stack-depth=N    record at most N frames of a stack, 0 to 500 (200)\n"
    "  --compress=N       zstd level of the file, 1 to 19 (1)\n"
    "  --max-size=SIZE    end the recording at this size of the file, such as 500m or 2g\n"
    "  --keep=first|last  which part of a longer recording is kept at --max-size (first)\n"
    "  --trace-fork=no    do not record children that the program forks; else each has a file\n"
    "                     with its process id in the name\n"
    "  -h, --help         show this text\n"
    "  --version          show the version\n";

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("ljtrace: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* -- options -- */

static bool is_number(const char *text, long least, long most)
{
    char *end;
    const long n = strtol(text, &end, 10);
    return end != text && !*end && n >= least && n <= most;
}

/* Convert a size with a suffix k, m or g to a number of bytes, as text. Returns NULL if it is none. */
static const char *size_of(const char *text)
{
    static char bytes[24];
    static const char units[] = "kmg";
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end | 0x20) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (end == text || errno || text[0] == '-' || end[unit != NULL] || n > ULLONG_MAX >> (shift + 4) ||
        n << shift < SMALLEST)
        return NULL;
    snprintf(bytes, sizeof bytes, "%llu", n << shift);
    return bytes;
}

/* Store the value of an option. Returns what is wrong with it; NULL = nothing. */
static const char *set_option(struct options *o, const char *name, const char *value)
{
    if (strcmp(name, "out") == 0) {
        o->out = value;
        return *value && strcmp(value, "|") != 0 ? NULL : "--out needs a file name, -, or |COMMAND";
    }
    if (strcmp(name, "stack-depth") == 0) {
        o->depth = value;
        return is_number(value, 0, MOST_DEPTH) ? NULL : "--stack-depth takes a number from 0 to 500";
    }
    if (strcmp(name, "compress") == 0) {
        o->level = value;
        return is_number(value, 1, 19) ? NULL : "--compress takes a number from 1 to 19";
    }
    if (strcmp(name, "max-size") == 0) {
        o->max_size = size_of(value);
        return o->max_size ? NULL : "--max-size takes a number of bytes, 64k or more, such as 500m or 2g";
    }
    if (strcmp(name, "trace-fork") == 0) {
        o->forks = strcmp(value, "yes") == 0;
        return o->forks || strcmp(value, "no") == 0 ? NULL : "--trace-fork is yes or no";
    }
    o->keep = value;
    return strcmp(value, "first") == 0 || strcmp(value, "last") == 0 ? NULL : "--keep is first or last";
}

/* Parse the command line. Returns -1, or the exit status if that was all. */
static int parse(struct run *r, int argc, char **argv)
{
    enum { OTHER, HELP, VERSION };
    static const struct option all[] = {{"out", required_argument, NULL, OTHER},
                                        {"stack-depth", required_argument, NULL, OTHER},
                                        {"compress", required_argument, NULL, OTHER},
                                        {"max-size", required_argument, NULL, OTHER},
                                        {"keep", required_argument, NULL, OTHER},
                                        {"trace-fork", required_argument, NULL, OTHER},
                                        {"help", no_argument, NULL, HELP},
                                        {"version", no_argument, NULL, VERSION},
                                        {0}};
    int index, c;
    r->options = (struct options){"ljtrace.%p.ljt", "200", "1", "0", "first", 1};
    while ((c = getopt_long(argc, argv, "+h", all, &index)) != -1) {
        const char *wrong = NULL;
        if (c == HELP || c == 'h')
            return fputs(s_usage, stdout) < 0;
        if (c == VERSION)
            return puts("ljtrace " PACKAGE_VERSION) < 0;
        if (c != OTHER || (wrong = set_option(&r->options, all[index].name, optarg))) {
            if (wrong)
                complain("%s", wrong);
            fputs("Try `ljtrace run --help`.\n", stderr);
            return FAILED;
        }
    }
    r->program = argv + optind;
    if (*r->program)
        return -1;
    complain("no program is given; try `ljtrace run --help`");
    return FAILED;
}

/* -- the parts -- */

/* Where the collector and the library are: beside this program. */
static bool part_path(char *to, size_t room, const char *name)
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return false;
    self[n] = 0;
    *strrchr(self, '/') = 0;
    return snprintf(to, room, "%s/%s", self, name) < (int)room;
}

static bool make_ring(struct run *r)
{
    r->memfd = memfd_create("ljtrace-ring", MFD_CLOEXEC);
    if (r->memfd < 0 || ftruncate(r->memfd, (off_t)RING_BYTES) != 0)
        return false;
    r->ring = mmap(NULL, RING_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->memfd, 0);
    if (r->ring == MAP_FAILED)
        return false;
    r->ring->magic = RING_MAGIC;
    r->ring->version = RING_VERSION;
    return true;
}

/* In the child: wait until the collector is ready, then become the program. */
static void become_program(const struct run *r, int gate, int failure)
{
    char library[PATH_MAX], variable[2 * PATH_MAX], preload[2 * PATH_MAX], go;
    const char *former = getenv("LD_PRELOAD");
    const int memfd = fcntl(r->memfd, F_DUPFD, 100);
    if (read(gate, &go, 1) != 1)
        _exit(FAILED);
    if (memfd < 0 || !part_path(library, sizeof library, "libljtrace-native.so")) {
        complain("cannot start the program: %s", strerror(errno));
        _exit(FAILED);
    }
    snprintf(variable, sizeof variable, "%d:%s:%d:%s%s", memfd, r->options.depth, r->options.forks,
             former ? "=" : "-", former ? former : "");
    snprintf(preload, sizeof preload, "%s%s%s", library, former ? ":" : "", former ? former : "");
    setenv(NATIVE_VARIABLE, variable, 1);
    setenv("LD_PRELOAD", preload, 1);
    if (r->ignores_children)
        signal(SIGCHLD, SIG_IGN);
    sigprocmask(SIG_SETMASK, &r->usual, NULL);
    execvp(r->program[0], r->program);
    const int error = errno;
    if (write(failure, &error, sizeof error) < 0)
        complain("cannot run %s: %s", r->program[0], strerror(error));
    _exit(error == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}

/* Fork the child that will be the program. */
static bool fork_child(struct run *r)
{
    int gate[2], failure[2];
    if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(failure, O_CLOEXEC) != 0)
        return false;
    r->child = fork();
    if (r->child == 0) {
        close(gate[1]);
        become_program(r, gate[0], failure[1]);
    }
    close(gate[0]);
    close(failure[1]);
    r->gate = gate[1];
    r->failure = failure[0];
    return r->child > 0;
}

/* In the second child: become the collector. */
static void become_collector(const struct run *r, int socket)
{
    char path[PATH_MAX], ring[16], fd[16], pid[16];
    const size_t length = strlen(r->options.out);
    const bool text = length > 4 && strcmp(r->options.out + length - 4, ".txt") == 0;
    snprintf(ring, sizeof ring, "%d", fcntl(r->memfd, F_DUPFD, 3));
    snprintf(fd, sizeof fd, "%d", fcntl(socket, F_DUPFD, 3));
    snprintf(pid, sizeof pid, "%d", r->child);
    /* clang-format off */
    const char *argv[] = {"ljtrace-collector", "--ring", ring, "--socket", fd, "--level", r->options.level,
                          "--out", r->options.out, "--pid", pid, "--text", text ? "1" : "0",
                          "--max-size", r->options.max_size, "--freed", "0", "--beside", "0",
                          "--keep", r->options.keep, "--native", "1", NULL};
    /* clang-format on */
    setsid();
    unsetenv("LD_PRELOAD");
    unsetenv("LD_AUDIT");
    sigprocmask(SIG_SETMASK, &r->usual, NULL);
    if (part_path(path, sizeof path, "ljtrace-collector"))
        execv(path, (char **)argv);
    _exit(FAILED);
}

static bool fork_collector(struct run *r)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    r->collector = fork();
    if (r->collector == 0)
        become_collector(r, pair[1]);
    close(pair[1]);
    r->socket = pair[0];
    return r->collector > 0;
}

/* -- the collector's messages -- */

/* Read all that the collector sends until it ends, and show it: notes between RING_NOTE, and its last words. */
static void show_messages(const struct run *r)
{
    char bytes[4096], line[1200];
    size_t used = 0;
    bool noting = false;
    ssize_t n;
    while ((n = read(r->socket, bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR))
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
}

/* Wait until the collector has opened its output. Returns false, after a message, if it cannot. */
static bool wait_until_ready(const struct run *r)
{
    char first = 0;
    while (read(r->socket, &first, 1) < 0 && errno == EINTR)
        ;
    if (first == RING_READY)
        return true;
    if (first == RING_BUSY)
        complain("%s is being written by another recording; give another name with --out=FILE",
                 r->options.out);
    else if (!first)
        complain("the collector did not start; is the installation complete?");
    else {
        fprintf(stderr, "ljtrace: %c", first);
        char rest[600];
        const ssize_t n = read(r->socket, rest, sizeof rest - 1);
        rest[n > 0 ? n : 0] = 0;
        fprintf(stderr, "%s; give a writable file with --out=FILE\n", rest);
    }
    return false;
}

/* -- the end -- */

static void put_end(const struct run *r, int status)
{
    r->ring->status = status;
    __atomic_store_n(&r->ring->ended, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &r->ring->filled, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Look whether the collector has ended, with WNOHANG, or wait for it. If it could, it has sent why. */
static void reap_collector(struct run *r, int how)
{
    int status;
    if (r->collector_ended || waitpid(r->collector, &status, how) != r->collector)
        return;
    r->collector_ended = true;
    r->ring->collector = 0; /* the program does not wait for it */
    if (WIFSIGNALED(status))
        complain("the collector was killed by signal %d; the program ran on unrecorded", WTERMSIG(status));
}

/* Pass signals on to the program until it ends. Returns its status. The terminal sends SIGINT and SIGQUIT to the program
 * as well. */
static int wait_for_program(struct run *r, const sigset_t *signals)
{
    int status;
    for (;;) {
        siginfo_t info;
        if (sigwaitinfo(signals, &info) < 0)
            continue;
        if (info.si_signo != SIGCHLD) {
            if (info.si_code <= 0 || (info.si_signo != SIGINT && info.si_signo != SIGQUIT))
                kill(r->child, info.si_signo);
            continue;
        }
        reap_collector(r, WNOHANG);
        if (waitpid(r->child, &status, WNOHANG) == r->child)
            return status;
    }
}

/* End as the program has: by the same signal, without a second core file, or with its status. */
static int end_like(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    sigset_t all;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(WTERMSIG(status), SIG_DFL);
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

static sigset_t block_signals(struct run *r)
{
    static const int signals[] = {SIGCHLD, SIGINT,  SIGQUIT, SIGTERM,  SIGHUP, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGCONT, SIGWINCH, SIGPIPE};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, &r->usual);
    r->ignores_children = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
    return set;
}

int main(int argc, char **argv)
{
    struct run r = {0};
    const int done = parse(&r, argc, argv);
    if (done >= 0)
        return done;
    const sigset_t signals = block_signals(&r);
    if (!make_ring(&r) || !fork_child(&r)) {
        complain("cannot begin the recording: %s; it needs shared memory of %llu bytes", strerror(errno),
                 (unsigned long long)RING_BYTES);
        return FAILED;
    }
    if (!fork_collector(&r) || !wait_until_ready(&r)) {
        close(r.gate); /* the child ends */
        return FAILED;
    }
    if (write(r.gate, "", 1) != 1)
        return FAILED;
    close(r.gate);
    int error = 0;
    while (read(r.failure, &error, sizeof error) < 0 && errno == EINTR)
        ;
    const int status = wait_for_program(&r, &signals);
    const bool begun = r.ring->begun;
    put_end(&r, status);
    show_messages(&r);
    reap_collector(&r, 0);
    if (error)
        complain("cannot run %s: %s", r.program[0], strerror(error));
    else if (!begun)
        complain("nothing was recorded: the library was not loaded. Static and set-user-id programs do not "
                 "load it; "
                 "use valgrind --tool=ljtrace");
    return end_like(status);
}
