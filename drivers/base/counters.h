/* counters.h - what the processor and the kernel count while this thread replays.
 *
 * The processor's counters are those of user mode, by perf_event_open. Many virtual machines have none, and systems
 * can forbid them; each that cannot be had is marked so. The kernel's counters, by getrusage, always exist.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_COUNTERS_H
#define DRIVERS_BASE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

enum hardware { CYCLES, INSTRUCTIONS, CACHE_MISSES, DTLB_MISSES, HARDWARE };
extern const char *const hardware_names[HARDWARE];

struct counters {
    bool has[HARDWARE];
    uint64_t hardware[HARDWARE];
    uint64_t minor_faults, major_faults;
    uint64_t yields, preemptions; /* voluntary and involuntary context switches */
    uint64_t memory_calls;        /* of mmap, munmap, mremap, madvise, brk for the heap */
};

/* Count from now on until counters_stop, which stores the counts. */
void counters_start(struct counters *c);
void counters_stop(struct counters *c);

#endif
