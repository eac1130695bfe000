/* clock.c - chooses the clock and measures its cost and step.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/clock.h"

#include <cpuid.h>
#include <stddef.h>

struct clock_facts clock_facts = {.nanoseconds = 1.0};

static bool counter_is_constant(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8));
}

struct moment {
    uint64_t wall, ticks;
};

/* Read both clocks at the same time: of several pairs of readings, keep the pair with the least time between. */
static struct moment read_both(void)
{
    enum { TRIALS = 100 };
    struct moment best = {0, 0};
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TRIALS; i++) {
        uint64_t before = clock_ticks(), wall = clock_wall(), took = clock_ticks() - before;
        if (took < least) {
            least = took;
            best = (struct moment){wall, before + took / 2};
        }
    }
    return best;
}

/* Determine the nanoseconds per tick, by comparison with the monotonic clock over 20 ms. */
static double measure_rate(void)
{
    struct moment from = read_both(), to;
    do
        to = read_both();
    while (to.wall - from.wall < 20000000u);
    return (double)(to.wall - from.wall) / (double)(to.ticks - from.ticks);
}

static __attribute__((noinline)) void *no_work(size_t size, uint32_t id)
{
    __asm__ volatile("" : : "r"(size), "r"(id));
    return NULL;
}

enum { TRIALS = CLOCK_TRIALS, MOST = CLOCK_MOST, RARE = TRIALS / 1000 };

uint64_t clock_step_of(const uint32_t counts[CLOCK_MOST])
{
    /* first and last: of the values of one multiple of the step */
    uint64_t first = MOST, last = MOST, step = MOST;
    for (uint64_t ticks = 0; ticks < MOST - 1; ticks++) {
        if (counts[ticks] <= RARE)
            continue;
        if (last == ticks - 1 && ticks - first > 1)
            return 1;
        if (last < MOST && last != ticks - 1 && ticks - first < step)
            step = ticks - first;
        if (last != ticks - 1)
            first = ticks;
        last = ticks;
    }
    if (step < MOST)
        return step;
    return last && last < MOST ? last : 1;
}

/* Measure how many ticks timing a call of an empty function takes: the median, and the step. */
static void measure_cost(void)
{
    void *(*volatile call)(size_t, uint32_t) = no_work;
    uint32_t counts[MOST] = {0}, seen = 0;
    for (uint32_t i = 0; i < TRIALS; i++) {
        uint64_t from = clock_ticks();
        call(16, i);
        uint64_t took = clock_ticks() - from;
        counts[took < MOST ? took : MOST - 1]++;
    }
    uint32_t ticks = 0;
    while ((seen += counts[ticks]) <= TRIALS / 2)
        ticks++;
    clock_facts.cost = ticks;
    clock_facts.step = clock_step_of(counts);
}

void clock_calibrate(void)
{
    clock_facts = (struct clock_facts){.counter = counter_is_constant(), .nanoseconds = 1.0};
    if (clock_facts.counter)
        clock_facts.nanoseconds = measure_rate();
    measure_cost();
}

uint64_t clock_thread(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
