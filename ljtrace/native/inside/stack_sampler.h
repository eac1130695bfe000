/* stack_sampler.h - --sample-stacks: the stack of each thread after each interval of its CPU time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A timer on the CPU time of each thread sends it a signal, whose handler records the stack. The weight of a sample is the
 * CPU time since the one before. Time in the recorder itself is not recorded.
 */
#ifndef LJTRACE_NATIVE_INSIDE_STACK_SAMPLER_H
#define LJTRACE_NATIVE_INSIDE_STACK_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

/* A recording begins: take samples at this interval in nanoseconds; 0 = none. All threads that there are get timers. Not
 * while the ring is locked. */
void stack_sampler_begin(uint64_t interval);
/* It ends: no thread has a timer any more. */
void stack_sampler_end(void);
/* The calling thread is sampled from now on, if samples are taken at all. */
void stack_sampler_join(void);
/* This is a forked child with a ring of its own: its thread has no timer. */
void stack_sampler_anew(void);
/* What the calling thread does until false is passed is not the program's work. */
void stack_sampler_hide(bool on);

/* In the middle of an event, code of the program is called: its time is the program's. */
void stack_sampler_lend(void);
/* It has returned: record a sample of the event's stack if one was due. The event's registers are those of
 * lua_stack_begin or of a watched function (host/host.h). */
void stack_sampler_return(void);

#endif
