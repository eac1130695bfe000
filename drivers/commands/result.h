/* result.h - allocstats result files.
 *
 * The text is what the original wrote, one Python literal per name, with more names and keys:
 *     driver = "dlmalloc"
 *     ...
 *     alloc_stats = [
 *         {'op_index': 0, 'free': 270400, ...}
 *     ,    {...}
 *     ]
 * A file is written to a temporary file and renamed, so that there is never half of one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_COMMANDS_RESULT_H
#define DRIVERS_COMMANDS_RESULT_H

#include "drivers/base/outfile.h"
#include "drivers/supervisor/session.h"

#include <stdio.h>

/* Results of the runs, without the points. Times are in nanoseconds, those per operation in picoseconds. */
struct findings {
    uint64_t theoretical; /* theoretical_heap_size */
    uint64_t total_ops;   /* N and F operations done, over all rounds */
    uint64_t rounds, odd_locks, killed, highest, outside;
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

struct result_file {
    FILE *out;
    struct outfile file;
};

/* Begin to write the file that the options name. Returns -1, or, after printing an error, the exit status. */
int result_begin(struct result_file *f, const struct session *s);
/* Put the file in place, or remove it (result_abandon). On error it is removed, too; prints the error and
 * returns false. */
bool result_finish(struct result_file *f);
void result_abandon(struct result_file *f);

void result_header(FILE *out, const struct session *s, const struct findings *r);
void result_point(FILE *out, const struct point *p, bool first);

#endif
