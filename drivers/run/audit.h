/* audit.h - checks for --check: alignment and overlaps of all blocks, and at the end the contents of blocks that are
 * never freed. guard.h compares the contents of blocks that are freed or resized.
 *
 * A misaligned block does not end the replay, because an overlap may follow. The first one is reported at the end,
 * with the number of all. An overlap ends the replay. Overlaps of blocks that move are found only by their contents.
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
    uint64_t misaligned; /* number of blocks; the other fields are about the first of them */
    uint64_t first_op, first_size;
    const void *first_address;
};

/* Without --check, this and the other functions do nothing. False when out of memory. */
bool audit_open(struct audit *a, const struct engine *e);
/* Check a new block, or a resized one after audit_gone. If it overlaps another, sets the error text and returns
 * false. */
bool audit_made(struct audit *a, const struct block *b, const void *address);
void audit_gone(struct audit *a, const struct block *b, const void *address);
/* Set the status and text in shared memory at the end of the replay, if something was wrong. */
void audit_end(const struct audit *a);

#endif
