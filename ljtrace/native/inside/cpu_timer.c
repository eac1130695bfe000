/* cpu_timer.c - a timer on the CPU time of a thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/native/inside/cpu_timer.h"
#include "ljtrace/protocol/kernel.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#define SECOND 1000000000ULL

/* The kernel's number of the clock that has the CPU time of a thread, as pthread_getcpuclockid makes it. */
static long clock_of(int thread)
{
    return (long)(((unsigned)~thread << 3) | 6);
}

int cpu_timer_thread(void)
{
    return (int)kernel_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

bool cpu_timer_start(struct cpu_timer *timer, int thread, int signal, uint64_t interval)
{
    const struct timespec each = {(time_t)(interval / SECOND), (long)(interval % SECOND)};
    const struct itimerspec when = {each, each};
    struct sigevent event;
    int id;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event._sigev_un._tid = thread;
    if (kernel_call(SYS_timer_create, clock_of(thread), (long)&event, (long)&id, 0, 0, 0) != 0)
        return false;
    *timer = (struct cpu_timer){id, true};
    if (kernel_call(SYS_timer_settime, id, 0, (long)&when, 0, 0, 0) == 0)
        return true;
    cpu_timer_stop(timer);
    return false;
}

void cpu_timer_stop(struct cpu_timer *timer)
{
    if (timer->exists)
        kernel_call(SYS_timer_delete, timer->id, 0, 0, 0, 0, 0);
    timer->exists = false;
}

uint64_t cpu_timer_now(void)
{
    struct timespec now = {0, 0};
    kernel_call(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&now, 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}
