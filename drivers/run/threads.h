/* threads.h - the replay on real threads: each thread of the program that was traced has one of its own.
 *
 * Each does its operations in their order. Operations on one block keep their order across threads, too: each
 * has a number, its turn, and a thread waits until the block has come to it. All else may happen in any
 * order, so that threads meet in the allocator as those of the program did, or more closely: they do nothing
 * between their calls. An allocator that is not made for threads gets a lock around each call.
 *
 * Like engine_batch.h it times the whole, not single operations; one round only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_THREADS_H
#define DRIVERS_RUN_THREADS_H

#include "drivers/run/engine.h"

/* Most threads that are replayed as such. */
enum { THREADS_MOST = 1024 };
/* Bytes of heap that a run on threads has for each besides: allocators reserve address space for each. */
#define THREADS_HEAP ((uint64_t)128 << 20)

/* Replay once; the result is shared->threaded, and shared->op_index the operation where it failed, if it did. */
void threads_run(struct engine *e);

#endif
