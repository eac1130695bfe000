/* clock.h - the clock that times operations.
 *
 * It is the time stamp counter of the processor if that runs at a constant rate, read with rdtscp and a fence, so
 * that the timed code is executed wholly between two readings. Otherwise it is the monotonic clock. Reading it takes
 * time, too: the median of timing an empty call is measured once and subtracted. The CPU clock of the process is not
 * used, because reading it takes longer than most operations.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_CLOCK_H
#define DRIVERS_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <x86intrin.h>

struct clock_facts {
    bool counter;       /* true: the time stamp counter; false: clock_gettime */
    uint64_t cost;      /* ticks of measuring an empty call, median */
    uint64_t step;      /* least difference between two different measurements, in ticks */
    double nanoseconds; /* of one tick */
};

extern struct clock_facts clock_facts;

/* Choose and measure the clock; takes about 20 ms. To be called once, before the others; or clock_facts of another
 * process on the same machine are taken over. */
void clock_calibrate(void);

enum { CLOCK_TRIALS = 20001, CLOCK_MOST = 4096 };
/* The step of a clock, in ticks: the least difference between values that occur often. Many processors and virtual machines
 * advance the counter in steps of about 10 ns. A step need not be a whole number of ticks: with 24.5, there are pairs of
 * neighbours (73 and 74). Three neighbours are not one multiple of a step, so then it is one tick. If there is only
 * one multiple, the step can be as large as that. counts: how many of CLOCK_TRIALS measurements of the same were so
 * many ticks. */
uint64_t clock_step_of(const uint32_t counts[CLOCK_MOST]);

static inline uint64_t clock_wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The current time in ticks. */
static inline uint64_t clock_ticks(void)
{
    unsigned processor;
    if (!clock_facts.counter)
        return clock_wall();
    _mm_lfence();
    uint64_t t = __rdtscp(&processor);
    _mm_lfence();
    return t;
}

/* Nanoseconds between two readings, without the cost of reading; never below 0. */
static inline uint64_t clock_between(uint64_t from, uint64_t to)
{
    uint64_t ticks = to - from;
    return ticks > clock_facts.cost
               ? (uint64_t)((double)(ticks - clock_facts.cost) * clock_facts.nanoseconds + 0.5)
               : 0;
}

/* CPU time of this thread in nanoseconds, for long intervals only. */
uint64_t clock_thread(void);

#endif
