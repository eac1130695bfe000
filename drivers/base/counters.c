/* counters.c - counts what the processor and the kernel do for this thread.
 *
 * This runs in the driver's process, where nothing may call malloc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/counters.h"
#include "drivers/heap/region.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *const hardware_names[HARDWARE] = {"cycles", "instructions", "cache_misses", "dtlb_misses"};

static int s_fd[HARDWARE];

static int open_counter(enum hardware h)
{
    static const struct {
        uint32_t type;
        uint64_t config;
    } events[HARDWARE] = {
        {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
        {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
        {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
        {PERF_TYPE_HW_CACHE,
         PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
    };
    struct perf_event_attr a = {.type = events[h].type,
                                .size = sizeof a,
                                .config = events[h].config,
                                .disabled = 1,
                                .exclude_kernel = 1,
                                .exclude_hv = 1,
                                .read_format =
                                    PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING};
    return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Add the kernel's counts, multiplied by `sign`. */
static void add_usage(struct counters *c, uint64_t sign)
{
    struct rusage u;
    if (getrusage(RUSAGE_THREAD, &u) != 0)
        return;
    c->minor_faults += sign * (uint64_t)u.ru_minflt;
    c->major_faults += sign * (uint64_t)u.ru_majflt;
    c->yields += sign * (uint64_t)u.ru_nvcsw;
    c->preemptions += sign * (uint64_t)u.ru_nivcsw;
    c->memory_calls += sign * region_calls();
}

void counters_start(struct counters *c)
{
    *c = (struct counters){0};
    for (int i = 0; i < HARDWARE; i++)
        s_fd[i] = open_counter((enum hardware)i);
    add_usage(c, (uint64_t)-1);
    for (int i = 0; i < HARDWARE; i++)
        if (s_fd[i] >= 0)
            ioctl(s_fd[i], PERF_EVENT_IOC_ENABLE, 0);
}

/* Read a counter. If it had to share the processor's counter with others, its value is an estimate. */
static void read_counter(struct counters *c, int i)
{
    uint64_t v[3]; /* value, time enabled, time running */
    c->has[i] = read(s_fd[i], v, sizeof v) == (ssize_t)sizeof v && v[2];
    if (c->has[i])
        c->hardware[i] = (uint64_t)((double)v[0] * (double)v[1] / (double)v[2]);
    close(s_fd[i]);
}

void counters_stop(struct counters *c)
{
    for (int i = 0; i < HARDWARE; i++)
        if (s_fd[i] >= 0)
            ioctl(s_fd[i], PERF_EVENT_IOC_DISABLE, 0);
    add_usage(c, 1);
    for (int i = 0; i < HARDWARE; i++)
        if (s_fd[i] >= 0)
            read_counter(c, i);
}
