/* clock.c - the time of events in nanoseconds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The kernel's clock costs 25 ns, a quarter of what an event costs. So its value is continued by the processor's time
 * stamp counter, if that runs at a constant rate: the rate is measured between two readings of the kernel's clock, at
 * least MEASURED apart, and corrected by another reading after each RENEWED.
 */
#include "ljtrace/native/inside/native.h"
#include "ljtrace/protocol/kernel.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <time.h>
#include <x86intrin.h>

enum { MEASURED = 10 * 1000000, FRACTION = 32 };
#define RENEWED 1000000000ULL

static uint64_t s_start; /* the kernel's clock at the beginning; 0 = not begun */
static uint64_t s_last;  /* the last time that was returned */

/* Readings at the same moment of the kernel's clock, since the beginning, and of the counter; the nanoseconds of a tick
 * from then on, as a fixed-point number with FRACTION bits, 0 = not measured; and for how many ticks this holds. */
static struct {
    uint64_t time, ticks, rate, valid;
} s_base;

static uint64_t kernel_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec - s_start;
}

/* Does the counter run at a constant rate? (Intel SDM, volume 3, "Invariant TSC"; AMD's manual has the same bit) */
static bool is_constant(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1 << 8);
}

void native_clock_begin(void)
{
    if (!s_start)
        s_start = kernel_now();
    s_base.rate = s_base.valid = 0;
    s_base.ticks = is_constant() ? __rdtsc() : 0;
    s_base.time = kernel_now();
}

uint64_t native_clock_start(void)
{
    return s_start;
}

void native_clock_restart(void)
{
    s_start = s_last = 0;
}

/* Read the kernel's clock, and measure the rate of the counter if enough time has passed. */
static uint64_t read_both(void)
{
    const uint64_t time = kernel_now(), ticks = __rdtsc();
    const uint64_t passed = time - s_base.time, counted = ticks - s_base.ticks;
    if (!s_base.ticks || passed < MEASURED || !counted)
        return time;
    s_base.rate = (uint64_t)(((unsigned __int128)passed << FRACTION) / counted);
    s_base.valid = s_base.rate ? (uint64_t)(((unsigned __int128)RENEWED << FRACTION) / s_base.rate) : 0;
    s_base.time = time;
    s_base.ticks = ticks;
    return time;
}

uint64_t native_now(void)
{
    const uint64_t ticks = s_base.rate ? __rdtsc() - s_base.ticks : 0;
    const bool holds = s_base.rate && ticks < s_base.valid;
    const uint64_t now =
        holds ? s_base.time + (uint64_t)(((unsigned __int128)ticks * s_base.rate) >> FRACTION) : read_both();
    return s_last = now > s_last ? now : s_last;
}

void native_pause(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    kernel_call(SYS_pselect6, 0, 0, 0, 0, (long)&time, 0);
}
