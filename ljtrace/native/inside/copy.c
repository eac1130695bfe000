/* copy.c - a copy of the process, which takes a snapshot while the program goes on.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A snapshot of a million Lua objects takes a second, and that long the program would have to wait. The kernel makes a
 * copy of the process within milliseconds: its memory is shared until either side changes a page. The copy reads the memory
 * as it was, and sends records to the collector over a socket; the collector reads them at the place of RAW_COPIED.
 *
 * The program notices nothing of the copy. It is made by the system call itself, so no handler of pthread_atfork runs. It
 * ends without a signal to its parent, so that no wait of the program finds it. It closes its descriptors at once, so that
 * pipes, connections and locks of files end when the program ends them, is in a session of its own, and gets no signals.
 * It calls no code of the program, and uses memory only for pages that the program changes meanwhile. If a copy cannot
 * be made (a limit of processes or memory, a seccomp filter), the program waits for the snapshot.
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/copy.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/session.h"
#include "ljtrace/protocol/kernel.h"
#include "ljtrace/protocol/local_socket.h"

#include <linux/wait.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

enum { NAME_BYTES = 40, COPIES = 4, RESULTS = 128, SIGNAL_SET = 8 /* bytes of the kernel's sigset_t */ };

/* What copies leave, in memory that both share. */
struct result {
    uint64_t key, number;
};
static struct result *s_results; /* [RESULTS], then that of HOST_COPY_OTHER */
static long s_copies[COPIES];    /* the processes that may run, the oldest first; 0 = none */
static uint64_t s_began;         /* when the program began to wait */
static uint64_t s_longest;       /* the longest wait so far, in nanoseconds */

static struct result *result_of(uint64_t key)
{
    return &s_results[key == HOST_COPY_OTHER ? RESULTS : key / 64 % RESULTS];
}

static bool make_results(void)
{
    const size_t n = (RESULTS + 1) * sizeof *s_results;
    if (!s_results) {
        void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        s_results = at == MAP_FAILED ? NULL : at;
        if (s_results)
            native_own(s_results, n);
    }
    return s_results != NULL;
}

/* ljtrace-cPID-NUMBER-NANOSECONDS: no other process has this name by accident. */
static void make_name(char *to, uint32_t number)
{
    char *at = stpcpy(to, "ljtrace-c");
    at = native_digits(at, native_process.id);
    *at++ = '-';
    at = native_digits(at, number);
    *at++ = '-';
    native_digits(at, native_now());
}

/* -- in the copy -- */

static _Noreturn void end(long status)
{
    for (;;)
        kernel_call(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

/* Standard error remains where messages go there (host_say). */
static void close_descriptors(void)
{
    const bool says = !native_options.attached;
    struct rlimit most = {0};
    if ((!says || kernel_call(SYS_close_range, 0, 1, 0, 0, 0, 0) == 0) &&
        kernel_call(SYS_close_range, says ? 3 : 0, ~0U, 0, 0, 0, 0) == 0)
        return;
    kernel_call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&most, 0, 0);
    for (rlim_t fd = 0; fd < most.rlim_cur && fd < 1 << 20; fd++) /* Linux before 5.9 */
        if (!says || fd != 2)
            kernel_call(SYS_close, (long)fd, 0, 0, 0, 0, 0);
}

/* Nothing of this process is to be noticed. It has all signals blocked. */
static void become_copy(const char *name, uint32_t number)
{
    close_descriptors();
    kernel_call(SYS_setsid, 0, 0, 0, 0, 0, 0);
    kernel_call(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0);
    kernel_call(SYS_prctl, PR_SET_NAME, (long)COPY_NAME, 0, 0, 0, 0);
    const int socket = native_ring_wait_for_listener(number) ? local_connect(name, strlen(name)) : -1;
    if (socket < 0 || !native_ring_send_to(socket))
        end(1);
    const long pages = kernel_call(SYS_mmap, 0, PROGRAM_FROZEN_PAGES * (long)sizeof(uint64_t),
                                   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages > 0)
        program_freeze((uint64_t *)pages);
}

void host_copy_leave(uint64_t key, uint64_t number)
{
    struct result *r = result_of(key);
    r->number = number;
    __atomic_store_n(&r->key, key, __ATOMIC_RELEASE);
}

void host_copy_end(uint64_t key, uint64_t number)
{
    native_ring_send_end();
    host_copy_leave(key, number);
    end(0);
}

/* -- in the program -- */

/* Has the program a filter of its own, which may end it for one of the calls that a copy needs? The filters that a program was
 * started with are those of its launcher, which starts processes as well. */
static bool may_be_refused(void)
{
    return native_is_sandboxed() || native_process.sandboxed ||
           (native_options.attached && native_ring_has_filters());
}

/* Forget copies that have ended. waits: wait until the oldest one has. Returns how many run. */
static uint32_t running(bool waits)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < COPIES; i++) {
        const long process = s_copies[i], options = __WCLONE | (waits && n == 0 ? 0 : WNOHANG);
        s_copies[i] = 0;
        /* A result that is not 0: it has ended, or it was never this process's, which is a forked child. */
        if (process && kernel_call(SYS_wait4, process, 0, options, 0, 0, 0) == 0)
            s_copies[n++] = process;
        else if (process)
            waits = false;
    }
    return n;
}

bool host_copy_runs(void)
{
    return !may_be_refused() && running(false) > 0;
}

bool host_copy_result(uint64_t key, uint64_t *number)
{
    struct result *r = s_results ? result_of(key) : NULL;
    if (!r || __atomic_load_n(&r->key, __ATOMIC_ACQUIRE) != key)
        return false;
    *number = r->number;
    r->key = 0;
    return true;
}

/* Each copy may hold memory that the program has freed, so there are few. */
enum host_copy host_copy_begin(void)
{
    char name[NAME_BYTES];
    uint64_t all = ~0ULL, usual = 0;
    if (may_be_refused() || !make_results())
        return HOST_COPY_NONE;
    if (running(false) == COPIES)
        running(true);
    native_ring_put_lost();
    const uint32_t number = native_ring_count_fork();
    make_name(name, number);
    kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&usual, SIGNAL_SET, 0, 0);
    const long copy = kernel_call(SYS_clone, 0, 0, 0, 0, 0, 0); /* without a signal at its end */
    if (copy == 0) {
        become_copy(name, number);
        return HOST_COPY_IS;
    }
    kernel_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&usual, 0, SIGNAL_SET, 0, 0);
    if (copy < 0) {
        native_ring_uncount_fork();
        return HOST_COPY_NONE;
    }
    s_copies[running(false)] = copy;
    NATIVE_PUT(copied, .instructions = host_time(), .name = native_text(name));
    native_ring_flush();
    return HOST_COPY_TAKES;
}

/* -- how long the program waits -- */

static uint64_t nanoseconds(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void host_stop_begins(void)
{
    s_began = nanoseconds();
}

void host_stop_ends(void)
{
    const uint64_t waited = nanoseconds() - s_began;
    if (waited <= s_longest)
        return;
    s_longest = waited;
    native_put_number("snapshot_stop", waited);
}

void copy_restart(void)
{
    s_longest = 0;
    if (!may_be_refused())
        running(false); /* those of an earlier recording */
    if (s_results)
        munmap(s_results, (RESULTS + 1) * sizeof *s_results);
    s_results = NULL;
}

void copy_forked(void)
{
    memset(s_copies, 0, sizeof s_copies);
    copy_restart();
}

bool copy_is_gone(void)
{
    return native_is_sandboxed() || native_process.sandboxed || running(false) == 0;
}

/* The program waits for it, but not for long. */
void copy_end(void)
{
    enum { TRIES = 100, PAUSE = 10 };
    for (int i = 0; i < TRIES && host_copy_runs(); i++)
        native_pause(PAUSE);
}
