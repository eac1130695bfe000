/* barrier.h - what a heap that threads share looks like, at moments when all of them stand still.
 *
 * In a pass of its own, so that no time is spoiled: no thread begins an operation behind the next halt until
 * all have come to it. What is done then is what one thread has done at that operation of the file, so that
 * live bytes are the same, and what the allocator holds for them can be compared. Between two halts nothing
 * is seen. The largest block is not looked for: a child of fork has one thread only, and may find an
 * allocator's locks held.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_BARRIER_H
#define DRIVERS_RUN_BARRIER_H

#include "drivers/run/thread.h"

enum { HALTS = 100 }; /* about so many in a replay */

/* Where the first halt is; UINT64_MAX in a pass without. */
uint64_t halts_first(const struct job *j);
/* Does everybody who is not done stand at the halt? */
bool halts_reached(const struct turns *t);
/* In a thread that has come to the halt: stand still until it is moved on. False: all ends. */
bool halts_wait(struct lane *l);
/* Wake those who stand still, after `stop` was set. */
void halts_end(struct turns *t);
/* Measure, and let all go on to the next one. */
void halts_measure(struct turns *t);

#endif
