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

/* What the runs found, besides the points. Times in nanoseconds, those per operation in picoseconds. */
struct findings {
    uint64_t theoretical; /* theoretical_heap_size */
    uint64_t total_ops;   /* N and F operations done, over all rounds */
    uint64_t rounds, odd_locks, killed, highest, outside;
    uint64_t pass_cpu[99]; /* of each whole replay, `passes` of them */
    uint32_t passes, timed_passes;
    /* least of the passes, whole replay; the last three 0: not known */
    uint64_t batch_cpu, batch_wall, warm_cpu, null_cpu, null_warm_cpu;
    uint64_t clock_cost, clock_step, clock_counter;
    struct latency times[TIMED_OPS];
    struct fragmentation fragmentation, in_memory;
    struct threads_result threaded; /* the pass with the least wall time; threads 0: none */
    struct threads_space threads_space;
    uint64_t null_threads_wall; /* the same operations on threads when nothing is allocated; 0: not known */
    bool complete;
    char error[512];
    struct point *points;
    uint64_t count;
};

struct result_file {
    FILE *out;
    struct outfile file;
};

/* Begin to write what the options name. -1: good; else the exit status, the reason was printed. */
int result_begin(struct result_file *f, const struct session *s);
/* Put it in place, or drop it. False: the reason was printed, nothing is left. */
bool result_finish(struct result_file *f);
void result_abandon(struct result_file *f);

void result_header(FILE *out, const struct session *s, const struct findings *r);
void result_point(FILE *out, const struct point *p, bool first);

#endif
