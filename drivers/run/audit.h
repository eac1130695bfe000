/* audit.h - with --check: is each block aligned, does it overlap a live one, and are blocks that are never freed
 * whole at the end? guard.h compares the contents of blocks that are freed or resized.
 *
 * A misaligned block does not end the replay, since an overlap may follow: the first is reported at the end,
 * with the number of all. An overlap ends it. Overlaps of blocks that move are found by their contents only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_AUDIT_H
#define DRIVERS_RUN_AUDIT_H

#include "drivers/run/cover.h"
#include "drivers/run/engine.h"

struct audit {
    const struct engine *e;
    struct cover cover; /* used if `covers` */
    bool covers;
    uint64_t misaligned; /* blocks; the rest is about the first of them */
    uint64_t first_op, first_size;
    const void *first_address;
};

/* False: no memory. Does nothing, like the others, without --check. */
bool audit_open(struct audit *a, const struct engine *e);
/* A new block (or a resized one, after audit_gone). False: it overlaps another; error text set. */
bool audit_made(struct audit *a, const struct block *b, const void *address);
void audit_gone(struct audit *a, const struct block *b, const void *address);
/* The replay has ended: set the status in shared memory and text if something was wrong. */
void audit_end(const struct audit *a);

#endif
