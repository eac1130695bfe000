/* barrier.h - measures a heap that threads share, at moments when all of them stand still.
 *
 * This is a pass of its own, so that it costs the timed passes nothing. No thread begins an operation after
 * the next barrier until all threads have reached it. What has been done then is what one thread would have
 * done up to that operation of the file, so the live bytes are the same, and the memory that the allocator
 * holds for them can be compared. Between two barriers nothing is measured. The largest free block is not
 * searched for: a child of fork has one thread only and may find the allocator's locks held.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_BARRIER_H
#define DRIVERS_RUN_BARRIER_H

#include "drivers/run/thread.h"

enum { BARRIERS = 100 }; /* in a replay, about */

/* The operation of the first barrier; UINT64_MAX in a pass without barriers. */
uint64_t barrier_first(const struct job *j);
/* Do all threads that are not done wait at the barrier? */
bool barrier_reached(const struct thread_group *g);
/* Called by a thread that has reached the barrier: wait until the barrier moves on. False: the replay ends. */
bool barrier_wait(struct thread *t);
/* End the replay: set `stop` and wake the threads that wait. */
void barrier_end(struct thread_group *g);
/* Measure, and let all threads go on to the next barrier. */
void barrier_measure(struct thread_group *g);

#endif
