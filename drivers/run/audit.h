/* audit.h - checks for --check: alignment, usable sizes and overlaps of all blocks, and at the end the contents of
 * blocks that are never freed. guard.h compares the contents of blocks that are freed or resized.
 *
 * A program may write to all usable bytes of a block. Therefore they are filled and compared, too, and may not overlap
 * another block.
 *
 * A misaligned block does not end the replay, because an overlap may follow. The first one is reported at the end,
 * with the number of all. An overlap ends the replay. Overlaps of blocks that move are found only by their contents.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_AUDIT_H
#define DRIVERS_RUN_AUDIT_H

#include "drivers/run/engine.h"

#include <stdbool.h>
#include <stdint.h>

/* -- the addresses that live blocks cover, to find blocks that overlap when the second one is allocated --
 *
 * There is one bit per 8 bytes. If blocks begin at multiples of 8, two blocks share a bit exactly if they overlap. The
 * bits are kept in pieces, each for 1 GiB of addresses, which are allocated when they are first needed. This
 * does not work for blocks that move, because their addresses change without a call. */

struct cover {
    uint64_t **pieces; /* by address / 1 GiB; NULL = none yet */
};

enum cover_answer { COVER_FREE, COVER_TAKEN, COVER_NO_MEMORY };

/* Add a live block of `bytes` bytes (0 counts as 1) at `address`, and return what it covers. */
enum cover_answer cover_take(struct cover *c, const void *address, uint64_t bytes);

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
/* Check a new block, or a resized one after audit_gone. If it overlaps another, or its usable size is wrong, sets the
 * error text and returns false. */
bool audit_made(struct audit *a, const struct block *b, void *address);
/* Check a block that will be freed or resized: false, with the error text set, if its usable bytes were overwritten. */
bool audit_gone(struct audit *a, const struct block *b, void *address);
/* The alignment in bytes that a driver with these flags must give a block of `size` bytes. */
uint64_t audit_alignment(uint32_t flags, uint64_t size);
/* Set the status and text in shared memory at the end of the replay, if something was wrong. */
void audit_end(const struct audit *a);

#endif
