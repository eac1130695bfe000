/* threads.h - the replay on real threads, one for each thread of the traced program.
 *
 * Each thread does its operations in order. Operations on one block also keep their order across threads: each has
 * a number, its turn, and a thread waits until the block has reached that turn. All other operations may happen in
 * any order. Threads therefore meet in the allocator as often as those of the program, or more often, since they do
 * nothing between their calls. If an allocator is not made for threads, a lock is held during each call.
 *
 * Like engine_batch.h, this measures the whole replay and not single operations. It replays one round only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_THREADS_H
#define DRIVERS_RUN_THREADS_H

#include "drivers/run/engine.h"

#include <stdint.h>

/* Largest number of threads of a file that can be replayed. */
enum { THREADS_MOST = 1024 };
/* Additional bytes of heap for each thread, since allocators reserve address space for each. */
#define THREADS_HEAP ((uint64_t)128 << 20)

/* Threads whose last operation is in the last 1/LATE_PART of all operations are taken for threads that the program still has
 * at its end. */
enum { LATE_PART = 10 };

/* Moments of a replay. ready: before the first operation, when the threads and all tables of the replay are there. done:
 * after the last operation, also after a failure, while the threads are alive that work until near the end. */
struct threads_events {
    void (*ready)(void *ctx), (*done)(void *ctx);
    void *ctx;
};

/* Replay once. The result is in shared->threaded; after a failure, shared->op_index is the operation that failed. Without
 * `events`, which may be NULL, each thread ends after its last operation. */
void threads_run(struct engine *e, const struct threads_events *events);

/* Approximate number of moments of a replay at which JOB_THREADS_SPACE measures the heap. */
enum { BARRIERS = 100 };

#endif
