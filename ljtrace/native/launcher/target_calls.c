/* target_calls.c - which system calls a running process may make.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The recorder's library makes system calls in the process. A seccomp filter may end the process for them, so filters are
 * read from the kernel and executed before (sandbox.c). Only root may read them. Each thread has its own; threads with the
 * same number of filters are taken to have the same, because filters are inherited and only added.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/sandbox.h"
#include "ljtrace/native/launcher/launcher.h"
#include "ljtrace/native/launcher/target.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

enum { MOST_THREADS = 4096, ATTEMPTS = 100 };

/* Stop a thread. Returns false if that is not possible. */
static bool stop(pid_t thread)
{
    int status;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0)
        return false;
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 && waitpid(thread, &status, __WALL) == thread &&
        WIFSTOPPED(status)) {
        if (status >> 16 == PTRACE_EVENT_STOP)
            return true;
        /* a signal came first: the thread gets it when it is left */
        ptrace(PTRACE_DETACH, thread, NULL, (void *)(long)WSTOPSIG(status));
    }
    return false;
}

/* Returns the first call that a filter of a stopped thread does not permit; NULL = there is none. *readable: could the
 * filters be read? The one after the last does not exist. */
static const char *denied_call(pid_t thread, bool *readable)
{
    static struct sock_filter filter[SANDBOX_MOST];
    const uint32_t uses =
        SANDBOX_RECORD | SANDBOX_FORK | SANDBOX_SAMPLE | SANDBOX_DETACH | SANDBOX_ATTACH | SANDBOX_PATCH;
    for (long i = 0;; i++) {
        const long n = ptrace(PTRACE_SECCOMP_GET_FILTER, thread, (void *)i, filter);
        *readable = n >= 0 || (i > 0 && errno == ENOENT);
        const char *denied = n >= 0 ? sandbox_denies(filter, (size_t)n, uses) : NULL;
        if (n < 0 || denied)
            return denied;
    }
}

static bool check_filters(const struct target *t, pid_t thread)
{
    char why[200];
    bool readable = false;
    const char *denied = NULL;
    bool stopped = false;
    for (int i = 0; i < ATTEMPTS && !stopped; i++) {
        if (!target_is_untraced(t, why, sizeof why))
            return target_refuse(t, why);
        stopped = stop(thread);
    }
    if (stopped) {
        denied = denied_call(thread, &readable);
        ptrace(PTRACE_DETACH, thread, NULL, NULL);
    }
    if (denied)
        snprintf(why, sizeof why, "its seccomp filter does not permit %s, which the recorder needs", denied);
    else if (!readable)
        snprintf(
            why, sizeof why,
            "it has a seccomp filter, which may not permit what the recorder needs, and only root can read "
            "it; record it from its start by: ljtrace run");
    return (!denied && readable) || target_refuse(t, why);
}

bool target_permits_calls(const struct target *t)
{
    static pid_t threads[MOST_THREADS];
    const size_t n = target_threads(t, threads, MOST_THREADS);
    long filters = -1;
    pid_t filtered = 0;
    for (size_t i = 0; i < n; i++) {
        char folder[32];
        snprintf(folder, sizeof folder, "task/%d/", threads[i]);
        const long mode = launcher_status(t->pid, folder, "Seccomp");
        const long count = mode > 0 ? launcher_status(t->pid, folder, "Seccomp_filters") : 0;
        if (mode == SECCOMP_MODE_STRICT)
            return target_refuse(t,
                                 "it is in seccomp's strict mode, which ends a process for what the recorder "
                                 "needs");
        if (filters >= 0 && count != filters)
            return target_refuse(t,
                                 "its threads have different seccomp filters; record it from its start by: "
                                 "ljtrace run");
        filters = count;
        filtered = mode > 0 ? threads[i] : filtered;
    }
    return !filtered || check_filters(t, filtered);
}

bool target_has_more_filters(const struct target *t, uint32_t known)
{
    static pid_t threads[MOST_THREADS];
    const size_t n = target_threads(t, threads, MOST_THREADS);
    bool found = false;
    for (size_t i = 0; i < n && !found; i++) {
        char folder[32];
        snprintf(folder, sizeof folder, "task/%d/", threads[i]);
        const long mode = launcher_status(t->pid, folder, "Seccomp");
        const long filters = launcher_status(t->pid, folder, "Seccomp_filters");
        found =
            mode == SECCOMP_MODE_STRICT || (filters >= 0 ? filters > (long)known : mode > 0 && known == 0);
    }
    return found;
}
