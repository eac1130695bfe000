/* schedule.h - which thread did which steps of a plan, and when.
 *
 * A *run* is a sequence of steps of one thread. Runs, and the times of the N, F and R operations, are collected while
 * the file is read, and stored after the steps in the plan's file, which the driver's process maps. A run takes 24
 * bytes and a time 8; files without threads and times have neither.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PLAN_SCHEDULE_H
#define DRIVERS_PLAN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NO_RUN UINT32_MAX

struct run {
    uint64_t step;   /* its first step; its last is the one before the next run in the file */
    uint64_t op;     /* number of N, F and R operations before it */
    uint32_t thread; /* from 0, in the order of their first steps */
    uint32_t next;   /* next run of the same thread, or NO_RUN */
};

/* Offsets of the tables in the plan's file. Counts are 0 if the file has no such information. */
struct schedule_facts {
    uint32_t threads, runs;
    uint64_t times; /* one time per N, F and R */
    uint64_t runs_at, latency_at;
};

struct schedule;

struct schedule *schedule_new(void);
void schedule_delete(struct schedule *s);

/* Record that the thread with this number in the file does the step with this index. False when out of memory or
 * of run numbers. */
bool schedule_step(struct schedule *s, uint32_t thread, uint64_t step, uint64_t op);
/* Record the time of the next N, F or R. False when out of memory. */
bool schedule_time(struct schedule *s, uint64_t time);
/* Write the tables after the first `bytes` bytes of a file. False on error. */
bool schedule_write(const struct schedule *s, int fd, uint64_t bytes, struct schedule_facts *facts);

#endif
