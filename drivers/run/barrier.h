/* barrier.h - measures a heap that several threads share, at moments when all of them wait.
 *
 * This is a separate pass, so that it does not slow down the timed passes. No thread begins an operation after the
 * next barrier until all threads have reached it. At a barrier, exactly the operations of the file up to there have
 * been done. The live bytes are therefore those of a replay on one thread, and the memory that the allocator uses for
 * them can be compared. Nothing is measured between barriers. The largest free block is not searched for, because a
 * forked child has one thread only, and the allocator may have locks that other threads held.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_BARRIER_H
#define DRIVERS_RUN_BARRIER_H

#include "drivers/run/thread.h"

enum { BARRIERS = 100 }; /* approximate number in a replay */

/* The operation of the first barrier; UINT64_MAX in a pass without barriers. */
uint64_t barrier_first(const struct job *j);
/* Do all threads that are not finished wait at the barrier? */
bool barrier_reached(const struct thread_group *g);
/* Called by a thread that has reached the barrier: wait until all may continue. False if the replay ends. */
bool barrier_wait(struct thread *t);
/* End the replay: set `stop` and wake all waiting threads. */
void barrier_end(struct thread_group *g);
/* Measure, and let all threads continue to the next barrier. */
void barrier_measure(struct thread_group *g);

#endif
