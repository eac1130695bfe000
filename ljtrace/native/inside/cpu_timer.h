/* cpu_timer.h - a timer on the CPU time of a thread, which sends a signal to this thread.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * glibc's timer_create may allocate, so the kernel is called directly. The kernel looks at such timers at its ticks, every
 * 1 to 10 ms, so signals cannot come more often.
 */
#ifndef LJTRACE_NATIVE_INSIDE_CPU_TIMER_H
#define LJTRACE_NATIVE_INSIDE_CPU_TIMER_H

#include <stdbool.h>
#include <stdint.h>

/* A timer; kernel timers have numbers from 0. */
struct cpu_timer {
    int id;
    bool exists;
};

/* The calling thread. */
int cpu_timer_thread(void);
/* Send this signal to a thread of this process after each `interval` nanoseconds of its CPU time. False: that is not
 * possible. */
bool cpu_timer_start(struct cpu_timer *timer, int thread, int signal, uint64_t interval);
void cpu_timer_stop(struct cpu_timer *timer);
/* The CPU time of the calling thread in nanoseconds. */
uint64_t cpu_timer_now(void);

#endif
