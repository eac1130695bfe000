/* guard.h - checks the blocks of an allocator.
 *
 * Every block must be inside the heap. With --check, each block is filled with a pattern of its own, and compared
 * when it is freed. This finds lost contents, bookkeeping data written into live blocks, and overlaps of blocks that
 * are freed (audit.h finds other overlaps). The first error is reported.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_GUARD_H
#define DRIVERS_RUN_GUARD_H

#include "drivers/run/engine.h"

/* Check that a new block is inside the heap, and fill or touch it as the job says. On error, sets the error text
 * and returns false. */
bool guard_made(struct shared *b, const struct steve_driver *d, const struct block *block, void *address);
/* Write the block's pattern to these bytes of it, which may be beyond the requested size. */
void guard_fill(const struct block *block, void *address, uint64_t from, uint64_t to);
/* Are the first `bytes` bytes those that guard_made wrote? Called before the block is freed, and after a resize. */
bool guard_kept(struct shared *b, const struct block *block, void *address, uint64_t bytes);

#endif
