/* guard.h - checks on the blocks an allocator gives out.
 *
 * Every block must lie inside the heap. With checking on, each block is filled with a pattern of its own
 * and must still hold it when it is freed: lost contents and bookkeeping written into live blocks are found, and
 * overlaps of blocks that are freed (audit.h finds the others). The first fault is the error text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_GUARD_H
#define DRIVERS_RUN_GUARD_H

#include "drivers/run/engine.h"

/* A new block: is it inside; fill or touch it as the job wants. False: fault, error text set. */
bool guard_made(struct shared *b, const struct steve_driver *d, const struct block *block, void *address);
/* Are the first `bytes` bytes those that guard_made wrote, before the block's end or after a resize? */
bool guard_kept(struct shared *b, const struct block *block, void *address, uint64_t bytes);

#endif
