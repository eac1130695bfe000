/* attach.c - the commands `ljtrace attach` and `ljtrace detach`: record a program that runs already.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The library is loaded into the program (inject.c), and gets the ring's memory over a socket. Then this process waits
 * for the end of the program or of the recording, or for a signal or the end of --seconds, and has the library detach.
 * `ljtrace detach` does only that; the process of `ljtrace attach` may have been killed.
 */
#define _GNU_SOURCE
#include "config.h"
#include "ljtrace/native/inside/session.h"
#include "ljtrace/native/launcher/inject.h"
#include "ljtrace/native/launcher/launcher.h"
#include "ljtrace/native/launcher/serve.h"
#include "ljtrace/native/launcher/target.h"
#include "ljtrace/protocol/local_socket.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 1 << 30 /* seconds */, LOOK = 500 /* milliseconds */ };

struct attach {
    struct launcher launcher;
    struct serve serve;
    double seconds; /* how long to record; 0 = no limit */
    struct target target;
    char library[PATH_MAX];
    char socket_name[64];
    bool is_unreadable; /* the process's list of objects */
    bool has_copy;      /* of the process, which still takes a snapshot when the recording has ended */
    uint32_t filters;   /* the process's seccomp filters while it was recorded */
    pid_t server;       /* the child that passes the ring's memory on */
    int signals;        /* signalfd */
};

static const char s_attach_usage[] =
    "usage: ljtrace attach [OPTIONS] PID\n"
    "Record the heap events of a running process from now on, until it ends, Ctrl-C,\n"
    "`ljtrace detach PID` or the end of --seconds. The process goes on.\n"
    "\n" LAUNCHER_HELP
    "  --universe[=growing]  take a snapshot of all Lua objects of each Lua state, also those from\n"
    "                     before, for steve universe; growing: and one each time the state's heap\n"
    "                     has grown: by an eighth, a quarter, then by half\n"
    "  --existing-blocks  record the blocks, too, that malloc of glibc had given before\n"
    "  --seconds=N        detach after N seconds\n"
    "  --trace-fork=no    do not record children that the program forks; else each has a file\n"
    "                     with its process id in the name\n" SERVE_HELP
    "  -h, --help         show this text\n"
    "  --version          show the version\n";

static const char s_detach_usage[] = "usage: ljtrace detach PID\n"
                                     "End the recording of a process. The process goes on.\n"
                                     "\n"
                                     "  -h, --help         show this text\n"
                                     "  --version          show the version\n";

/* -- the command line -- */

/* Store the value of an option. Returns what is wrong with it; NULL = nothing. */
static const char *set_option(struct attach *a, const char *name, const char *value)
{
    if (strcmp(name, "seconds") == 0) {
        char *end;
        a->seconds = strtod(value, &end);
        return end != value && !*end && a->seconds > 0 && a->seconds < LONGEST
                   ? NULL
                   : "--seconds takes a number above 0, such as 10 or 0.5";
    }
    if (strcmp(name, "existing-blocks") == 0) {
        a->launcher.recording.existing = 1;
        return NULL;
    }
    const char *wrong;
    if (serve_option(&a->serve, name, value, &wrong))
        return wrong;
    return launcher_option(&a->launcher, name, value);
}

/* Parse the command line of `attach` or `detach`. Returns -1, or the exit status if that was all. */
static int parse(struct attach *a, bool attaches, int argc, char **argv)
{
    enum { OTHER, HELP, VERSION };
    static const struct option all[] = {LAUNCHER_OPTIONS(OTHER),
                                        {"seconds", required_argument, NULL, OTHER},
                                        SERVE_OPTIONS(OTHER),
                                        {"existing-blocks", no_argument, NULL, OTHER},
                                        {"help", no_argument, NULL, HELP},
                                        {"version", no_argument, NULL, VERSION},
                                        {0}};
    static const struct option few[] = {
        {"help", no_argument, NULL, HELP}, {"version", no_argument, NULL, VERSION}, {0}};
    const char *command = attaches ? "attach" : "detach";
    static char name[sizeof "ljtrace attach"]; /* in what getopt says */
    int index, c;
    snprintf(name, sizeof name, "ljtrace %s", command);
    argv[0] = name;
    launcher_defaults(&a->launcher);
    a->launcher.recording.attached = 1;
    while ((c = getopt_long(argc, argv, "h", attaches ? all : few, &index)) != -1) {
        const char *wrong = NULL;
        if (c == HELP || c == 'h')
            return fputs(attaches ? s_attach_usage : s_detach_usage, stdout) < 0;
        if (c == VERSION)
            return puts("ljtrace " PACKAGE_VERSION) < 0;
        if (c != OTHER || (wrong = set_option(a, all[index].name, optarg))) {
            if (wrong)
                complain("%s", wrong);
            fprintf(stderr, "Try `ljtrace %s --help`.\n", command);
            return LAUNCHER_FAILED;
        }
    }
    const char *conflict = launcher_conflict(&a->launcher);
    if (conflict) {
        complain("%s", conflict);
        return LAUNCHER_FAILED;
    }
    if (argc - optind != 1 || !launcher_is_number(argv[optind], 1, INT_MAX)) {
        complain("one process id is needed; try `ljtrace %s --help`", command);
        return LAUNCHER_FAILED;
    }
    a->launcher.recording.process = (uint32_t)strtol(argv[optind], NULL, 10);
    return -1;
}

/* -- the ring's memory -- */

/* In the child: send the memory to the first process that connects, which is the program. */
static void serve(const struct attach *a, int listener)
{
    struct ucred other = {0};
    socklen_t n = sizeof other;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0; close(fd))
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &n) == 0 && other.pid == a->target.pid)
            _exit(local_send(fd, a->launcher.memfd) == 0 ? 0 : 1);
    _exit(1);
}

/* Start a child that waits for the program at an abstract socket. */
static bool start_server(struct attach *a)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(a->socket_name, sizeof a->socket_name, "ljtrace-attach-%d-%ld%09ld", a->target.pid,
             (long)now.tv_sec, now.tv_nsec);
    const int listener = local_listen(a->socket_name);
    if (listener < 0)
        return false;
    a->server = fork();
    if (a->server == 0)
        serve(a, listener);
    close(listener);
    return a->server > 0;
}

static void stop_server(const struct attach *a)
{
    kill(a->server, SIGKILL);
    waitpid(a->server, NULL, 0);
}

/* -- the program -- */

/* How many descriptors a process has open. */
static rlim_t open_descriptors(pid_t process)
{
    char path[32];
    rlim_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", process);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return n;
}

/* The library opens some files and sockets when it begins. If the process may not open as many, raise its limit for this
 * moment. Returns true if it has to be lowered to *usual again. */
static bool lend_descriptors(pid_t process, struct rlimit *usual)
{
    enum { NEEDED = 4 };
    if (prlimit(process, RLIMIT_NOFILE, NULL, usual) != 0)
        return false;
    const rlim_t wanted = open_descriptors(process) + NEEDED;
    const struct rlimit raised = {wanted, usual->rlim_max < wanted ? wanted : usual->rlim_max};
    return usual->rlim_cur < wanted &&
           (prlimit(process, RLIMIT_NOFILE, &raised, NULL) == 0 ||
            prlimit(process, RLIMIT_NOFILE, &(struct rlimit){usual->rlim_max, usual->rlim_max}, NULL) == 0);
}

/* Have the process call a function of the library; see inject.h. */
static const char *call(const struct attach *a, const char *function, const char *text, long *result)
{
    struct rlimit usual;
    const bool lent = lend_descriptors(a->target.pid, &usual);
    const char *wrong = inject(&a->target, a->library, function, text, result);
    if (lent)
        prlimit(a->target.pid, RLIMIT_NOFILE, &usual, NULL);
    return wrong;
}

static const char *what_failed(const struct attach *a, long result)
{
    static char busy[96];
    switch (result) {
    case ATTACHED_BUSY:
        snprintf(busy, sizeof busy, "it is recorded already; end that recording first: ljtrace detach %d",
                 a->target.pid);
        return busy;
    case ATTACHED_NO_RING:
        return "it cannot reach this process: it is in another network namespace (a container); run ljtrace "
               "inside of it";
    case ATTACHED_NO_DESCRIPTOR:
        return "it has too few descriptors left; raise its limit: prlimit --nofile=N --pid PID";
    case ATTACHED_NO_MAPS:
        return "it cannot read /proc/self/maps; /proc must be mounted where it runs";
    default:
        return "its recording cannot begin; it needs 32 MiB of address space";
    }
}

/* Load the library and begin. Returns false after a message. */
static bool recording_begin(struct attach *a)
{
    long result = 0;
    if (!start_server(a)) {
        complain("cannot attach: %s", strerror(errno));
        return false;
    }
    const char *wrong = call(a, ATTACHED_BEGIN, a->socket_name, &result);
    stop_server(a);
    if (!wrong && result != ATTACHED_DONE)
        wrong = what_failed(a, result);
    if (wrong)
        complain("cannot attach to process %d: %s", a->target.pid, wrong);
    return !wrong;
}

/* Let the process record no more events, because its recording is about to end, or let it go on. The ring may be that of
 * another process, its parent. */
static void set_ending(struct attach *a, uint32_t ending)
{
    const uint64_t ring = a->target.ring.base;
    uint32_t process = 0;
    if (ring &&
        target_read(&a->target, ring + offsetof(struct ring_header, process), &process, sizeof process) &&
        process == (uint32_t)launcher_status(a->target.pid, "", "NSpid")) /* in its own namespace */
        target_write(&a->target, ring + offsetof(struct ring_header, ending), &ending, sizeof ending);
}

/* Has the process installed a seccomp filter that may end it for a call of the library? The collector may not have seen
 * it yet. */
static bool is_sandboxed(struct attach *a)
{
    struct ring_header h;
    if (!a->target.ring.base || !target_read(&a->target, a->target.ring.base, &h, sizeof h))
        return false;
    a->filters = h.filters;
    return h.sandboxed || target_has_more_filters(&a->target, h.filters);
}

/* End the recording from outside: the collector ends the file, and no events are recorded. */
static void recording_end_outside(const struct attach *a, const char *why)
{
    const uint32_t ended = RING_LEFT;
    if (a->target.ring.base)
        target_write(&a->target, a->target.ring.base + offsetof(struct ring_header, ended), &ended,
                     sizeof ended);
    else
        launcher_put_end(&a->launcher, ended, 0);
    complain("process %d %s: it is recorded no more, but the library stays where it is", a->target.pid, why);
}

/* The objects of the process cannot be found. Returns false after a message, if it has not ended. */
static bool recording_end_unreadable(const struct attach *a)
{
    char why[160];
    snprintf(why, sizeof why, "cannot be looked at (its /proc/PID/maps: %s)", strerror(errno));
    if (!target_lives(a->target.pid))
        return true;
    if (a->launcher.ring)
        recording_end_outside(a, why);
    else
        complain("cannot detach from process %d: it %s", a->target.pid, why);
    return a->launcher.ring != NULL;
}

/* Have the library detach. Returns false after a message, if the process has not ended. */
static bool recording_end(struct attach *a)
{
    long result = 0;
    if (!target_find_library(&a->target))
        return recording_end_unreadable(a);
    set_ending(a, 1);
    if (is_sandboxed(a)) {
        recording_end_outside(a, "has a seccomp filter that may forbid the recorder's system calls");
        return true;
    }
    const char *wrong = a->target.library.base ? call(a, ATTACHED_END, "", &result) : NULL;
    if (!target_lives(a->target.pid))
        return true;
    a->has_copy = !wrong && result == ATTACHED_COPIED;
    if (!wrong && (result == ATTACHED_NOT || !a->target.library.base))
        wrong = "it is not recorded";
    if (!wrong)
        return true;
    set_ending(a, 0);
    complain("cannot detach from process %d: %s", a->target.pid, wrong);
    return false;
}

static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A copy of the process may take a snapshot for seconds after the recording has ended. When it has ended, too, let the
 * process take note of it, so that no zombie is left. */
static void wait_for_copy(struct attach *a)
{
    enum { PAUSE = 20000 /* microseconds */, MOST = 600 /* seconds */ };
    for (int64_t until = milliseconds() + MOST * 1000; a->has_copy && milliseconds() < until;) {
        long result = ATTACHED_DONE;
        usleep(PAUSE);
        if (target_copy_runs(&a->target))
            continue;
        if (!target_lives(a->target.pid) || !target_find_library(&a->target) || !a->target.library.base ||
            target_has_more_filters(&a->target, a->filters))
            return;
        const char *wrong = call(a, ATTACHED_REAP, "", &result);
        a->has_copy = wrong || result == ATTACHED_COPIED;
    }
}

/* A snapshot that takes the collector long is reported, since the recording was to end before. */
static void report_long_copy(const struct attach *a)
{
    enum { LONG = 1000 /* milliseconds */ };
    struct pollfd one = {.fd = a->launcher.socket, .events = POLLIN};
    if (a->has_copy && poll(&one, 1, LONG) == 0)
        complain("the recording has ended; a copy of the process still writes the snapshot of its heap");
}

/* -- waiting -- */

static void block_signals(struct attach *a)
{
    static const int signals[] = {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&set, signals[i]);
    if (a->serve.signal)
        sigaddset(&set, a->serve.signal);
    if (a->launcher.pages_signal)
        sigaddset(&set, a->launcher.pages_signal);
    sigprocmask(SIG_BLOCK, &set, &a->launcher.usual);
    a->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
}

/* Is there a signal that ends the recording? */
static bool is_asked_to_end(const struct attach *a)
{
    struct signalfd_siginfo info;
    while (read(a->signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD && !launcher_signalled(&a->launcher, (int)info.ssi_signo) &&
            !serve_signalled(&a->serve, (int)info.ssi_signo))
            return true;
    return false;
}

/* Has the process executed another program? If its objects cannot be found, which is said once, this is not known, and the
 * recording goes on. */
static bool is_replaced(struct attach *a)
{
    const bool found = target_find_library(&a->target);
    const int error = errno;
    if (!target_lives(a->target.pid))
        return false;
    if (!found && !a->is_unreadable)
        complain("/proc/%d/maps cannot be read (%s): whether the process still is the program that is "
                 "recorded is not "
                 "known; Ctrl-C ends the recording",
                 a->target.pid, strerror(error));
    a->is_unreadable = !found;
    return found && !a->target.library.base;
}

/* Wait until the recording has to be ended. Returns false if the program or the collector has ended before. */
static bool wait_until_end(struct attach *a)
{
    const int64_t until = a->seconds > 0 ? milliseconds() + (int64_t)(1000 * a->seconds) : INT64_MAX;
    const int process = (int)syscall(SYS_pidfd_open, a->target.pid, 0);
    struct pollfd both[] = {{.fd = a->signals, .events = POLLIN}, {.fd = process, .events = POLLIN}};
    for (;;) {
        const int64_t left = until - milliseconds();
        if (left <= 0 || is_asked_to_end(a))
            return true;
        launcher_reap(&a->launcher, WNOHANG);
        if (a->launcher.collector_ended || (process >= 0 && both[1].revents) || !target_lives(a->target.pid))
            return false;
        if (is_replaced(a)) {
            launcher_put_end(&a->launcher, RING_OVER, 0);
            return false;
        }
        poll(both, 2, left < LOOK ? (int)left : LOOK);
    }
}

/* -- the commands -- */

static int attach(struct attach *a)
{
    struct launcher *l = &a->launcher;
    if (!launcher_prepare(l))
        return LAUNCHER_FAILED;
    block_signals(a);
    if (!launcher_make_ring(l, a->target.pid))
        return LAUNCHER_FAILED;
    if (!launcher_start_collector(l) || !serve_start(&a->serve, l))
        return LAUNCHER_FAILED;
    const bool begun = recording_begin(a);
    if (!begun)
        launcher_put_end(l, RING_OVER, 0);
    else {
        complain("recording process %d; Ctrl-C or `ljtrace detach %d` ends it", a->target.pid, a->target.pid);
        launcher_show_problems(l);
        const bool asked = wait_until_end(a);
        if ((asked || l->collector_ended) && target_lives(a->target.pid) && !l->ring->detached)
            recording_end(a);
    }
    report_long_copy(a);
    launcher_show_messages(l);
    launcher_reap(l, 0);
    wait_for_copy(a);
    serve_end(&a->serve);
    return begun ? 0 : LAUNCHER_FAILED;
}

int main(int argc, char **argv)
{
    static struct attach a;
    const bool attaches = argc > 1 && strcmp(argv[1], "attach") == 0;
    const int done = parse(&a, attaches, argc - 1, argv + 1);
    if (done >= 0)
        return done;
    if (!launcher_part(a.library, sizeof a.library, "libljtrace-native.so")) {
        complain("cannot find the library beside this program");
        return LAUNCHER_FAILED;
    }
    if (!target_open(&a.target, (pid_t)a.launcher.recording.process, a.library))
        return LAUNCHER_FAILED;
    if (attaches)
        return target_permits_calls(&a.target) ? attach(&a) : LAUNCHER_FAILED;
    const bool ended = recording_end(&a);
    wait_for_copy(&a);
    return ended ? 0 : LAUNCHER_FAILED;
}
