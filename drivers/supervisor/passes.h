/* passes.h - does the runs of one measurement of an allocator.
 *
 * Time and space are measured in different runs, all in new processes, because searching for the largest block would
 * change the times of the operations after it. The order is: batch runs (the least CPU time counts, and they
 * determine the length of the run), the same on the null driver, timed runs (the median time of each data point
 * counts), one space run. Unless the user chose the number of passes, a pass of 3 s or more is not repeated, because
 * disturbances are small compared to it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_PASSES_H
#define DRIVERS_SUPERVISOR_PASSES_H

#include "drivers/base/shared.h"
#include "drivers/supervisor/session.h"

/* -- what the passes of a replay measured. -- */

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

/* Do all runs and fill in *r. The caller frees r->points. Returns the exit status. After an error, which has been
 * printed, *r has the results so far. */
int passes_run(struct session *s, struct measurements *r);

/* Run a job on threads, with room in the heap for what allocators reserve for each thread. */
enum job_status passes_run_on_threads(struct session *s, enum job_kind kind);

#endif
