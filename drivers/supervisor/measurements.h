/* measurements.h - what the passes of a replay measured.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_MEASUREMENTS_H
#define DRIVERS_SUPERVISOR_MEASUREMENTS_H

#include "drivers/base/shared.h"

/* Results of the runs, without the points. Times are in nanoseconds, those per operation in picoseconds. */
struct measurements {
    uint64_t theoretical; /* theoretical_heap_size */
    uint64_t total_ops;   /* N, F and R operations done, over all rounds */
    uint64_t rounds, odd_locks, killed, highest, outside;
    uint64_t resident;     /* the most bytes in memory, as far as they were read */
    uint64_t pass_cpu[99]; /* CPU time of each complete replay, `passes` of them */
    uint32_t passes, timed_passes;
    /* minimum of the passes, for the complete replay; the last three: 0 = not known */
    uint64_t batch_cpu, batch_wall, warm_cpu, null_cpu, null_warm_cpu;
    uint64_t clock_cost, clock_step, clock_counter;
    struct latency times[TIMED_OPS];
    struct fragmentation fragmentation, in_memory;
    struct threads_result threaded; /* the pass with the least wall time; threads = 0: none */
    struct threads_space threads_space;
    uint64_t null_threads_wall; /* the same operations on threads without an allocator; 0 = not known */
    bool complete;
    char error[512];
    struct point *points;
    uint64_t count;
};

#endif
