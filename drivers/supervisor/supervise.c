/* supervise.c - starts the process of a driver and watches it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/supervisor/supervise.h"
#include "drivers/base/clock.h"
#include "drivers/base/resident.h"
#include "drivers/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* jemalloc's thread-local state is larger than the dynamic linker's reserve for objects opened at run time. */
static const char TUNABLE[] = "glibc.rtld.optional_static_tls=16384";

void supervise_prepare(void)
{
    const char *old = getenv("GLIBC_TUNABLES");
    char value[4096];
    snprintf(value, sizeof value, "%s%s%s", old ? old : "", old && *old ? ":" : "", TUNABLE);
    setenv("GLIBC_TUNABLES", value, 1);
}

/* Give a descriptor its number in the new process. dup2 leaves it open across exec. */
static void hand_over(int fd, int number)
{
    if (fd < 0)
        return;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 20);
    if (high < 0 || dup2(high, number) < 0)
        _exit(127);
}

/* Give the process a group of its own, so that an interrupt at the terminal does not reach it. It ends with this
 * process. */
static pid_t start(int shared_fd, int plan_fd, int frames_fd)
{
    pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(127);
    setpgid(0, 0);
    /* All functions are found at the start. Otherwise each search for the largest block would find its own again. */
    setenv("LD_BIND_NOW", "1", 1);
    hand_over(shared_fd, SHARED_FD);
    hand_over(plan_fd, PLAN_FD);
    hand_over(frames_fd, FRAMES_FD);
    execl("/proc/self/exe", "steve-replay", WORKER_ARGUMENT, (char *)NULL);
    _exit(127);
}

static void show_progress(const struct supervise_options *s, const struct shared *b, bool end)
{
    static const char *const names[] = {"open",   "fit",    "batch",   "timed",
                                        "space",  "film",   "threads", "threads, space",
                                        "pieces", "places", "system",  "whole"};
    const struct plan_facts *f = &b->job.facts;
    uint64_t total = b->job.total_ops ? b->job.total_ops : f->news + f->frees + f->resizes;
    if (end)
        fprintf(stderr, "\r\033[K");
    else
        fprintf(stderr, "\r%s, %s: %" PRIu64 "%%\033[K", s->label, names[b->job.kind],
                total ? (b->op_index < total ? b->op_index : total) * 100 / total : 0);
    fflush(stderr);
}

/* Maximum time between two polls that counts towards the timeout, in nanoseconds. If the machine is suspended or
 * very busy, the allocator cannot make progress either. */
enum { LONGEST_STEP = 20000000 };

struct watch {
    uint64_t heartbeat, op_index;
    uint64_t looked, idle; /* time of the last poll; nanoseconds without progress */
    uint64_t started, shown;
    bool showing;
};

static bool too_long(const struct supervise_options *s, struct watch *w, const struct shared *b)
{
    uint64_t now = clock_wall(), step = now - w->looked;
    w->looked = now;
    w->idle += step < LONGEST_STEP ? step : LONGEST_STEP;
    if (w->heartbeat != b->heartbeat || w->op_index != b->op_index) {
        w->heartbeat = b->heartbeat;
        w->op_index = b->op_index;
        w->idle = 0;
    }
    if (!s->quiet && isatty(2) && now - w->started > 2000000000u && now - w->shown > 200000000u) {
        show_progress(s, b, false);
        w->showing = true;
        w->shown = now;
    }
    return s->timeout && w->idle > (uint64_t)s->timeout * 1000000000u;
}

enum { POLL_MS = 16 };

/* Wait until a process ends, or for some milliseconds. process: its pidfd; -1 = the kernel has none, so the end is not
 * noticed. */
static void sleep_until_end(int process, int milliseconds)
{
    struct pollfd p = {.fd = process, .events = POLLIN};
    poll(&p, 1, milliseconds);
}

/* Wait for the end of the process. True if it ended by itself, with *status. Threads that replay take no samples of the
 * memory, so they are taken here. */
static bool await_end(const struct supervise_options *s, struct shared *b, pid_t child, int *status)
{
    struct watch w = {.started = clock_wall(), .looked = clock_wall()};
    const bool is_sampled = b->job.kind == JOB_SYSTEM && b->job.facts.schedule.threads;
    struct resident_samples samples = {0};
    const int process = (int)syscall(SYS_pidfd_open, child, 0);
    bool in_time = true;
    while (waitpid(child, status, WNOHANG) == 0) {
        if (too_long(s, &w, b)) {
            kill(child, SIGKILL);
            waitpid(child, status, 0);
            in_time = false;
            break;
        }
        if (is_sampled && __atomic_load_n(&b->system.running, __ATOMIC_ACQUIRE))
            resident_look(&samples, child, false);
        sleep_until_end(process, is_sampled ? RESIDENT_EVERY_MS : POLL_MS);
    }
    if (is_sampled) {
        const uint64_t mean = resident_mean(&samples), least = b->system.baseline;
        b->system.mean = mean > least ? mean - least : 0;
        b->system.sampled = samples.at != 0;
    }
    if (process >= 0)
        close(process);
    kill(-child, SIGKILL); /* children of the process, such as searches */
    if (w.showing)
        show_progress(s, b, true);
    return in_time;
}

static void describe_end(const struct supervise_options *s, struct shared *b, bool in_time, int status)
{
    if (!in_time)
        snprintf(b->text, sizeof b->text, "did nothing for %u s (--timeout)", s->timeout);
    else if (WIFSIGNALED(status))
        snprintf(b->text, sizeof b->text, "crashed: %s", strsignal(WTERMSIG(status)));
    else if (b->status == STATUS_RUNNING)
        snprintf(b->text, sizeof b->text, "ended by itself with status %d", WEXITSTATUS(status));
    else
        return;
    b->status = STATUS_FAILED;
}

void supervise(const struct supervise_options *s, struct shared *shared, int shared_fd, int plan_fd,
               int frames_fd)
{
    int status = 0;
    shared->owner = getpid();
    pid_t child = start(shared_fd, plan_fd, frames_fd);
    if (child < 0) {
        snprintf(shared->text, sizeof shared->text, "cannot start a process: %s", strerror(errno));
        shared->status = STATUS_FAILED;
        return;
    }
    bool in_time = await_end(s, shared, child, &status);
    describe_end(s, shared, in_time, status);
}
