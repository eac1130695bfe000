/* schedule.h - which thread did which steps of a plan, and when: what an ops file with marks says besides.
 *
 * A *run* is a stretch of steps of one thread. Runs, and the times of the N, F and R operations, are kept
 * while the file is read and put behind the steps in the plan's file, from where the driver's process maps
 * them. A file without marks costs nothing. Takes 24 bytes for a run and 8 for a time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PLAN_SCHEDULE_H
#define DRIVERS_PLAN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NO_RUN UINT32_MAX

struct run {
    uint64_t step;   /* the first; the last is before that of the next run in the file */
    uint64_t op;     /* N, F and R operations before it */
    uint32_t thread; /* from 0, in the order of their first steps */
    uint32_t next;   /* run of the same thread, or NO_RUN */
};

/* Where the tables lie in the plan's file, in bytes; counts are 0 where the file says nothing. */
struct schedule_facts {
    uint32_t threads, runs;
    uint64_t times; /* one for each N, F and R */
    uint64_t runs_at, latency_at;
};

struct schedule;

struct schedule *schedule_new(void);
void schedule_delete(struct schedule *s);

/* The step with this index is done by the thread with this number in the file. False: out of memory or of run
 * numbers. */
bool schedule_step(struct schedule *s, uint32_t thread, uint64_t step, uint64_t op);
/* The next N, F or R was done at this time. False: out of memory. */
bool schedule_time(struct schedule *s, uint64_t time);
/* Write the tables behind the first `bytes` bytes of a file. False: cannot. */
bool schedule_write(const struct schedule *s, int fd, uint64_t bytes, struct schedule_facts *facts);

#endif
