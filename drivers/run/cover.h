/* cover.h - keeps track of the addresses that live blocks cover, to find blocks that overlap when the second one is
 * allocated.
 *
 * There is one bit per 8 bytes. If blocks begin at multiples of 8, two blocks share a bit exactly if they overlap. The
 * bits are kept in pieces, each for 1 GiB of addresses, which are allocated when they are first needed. This
 * does not work for blocks that move, because their addresses change without a call.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_COVER_H
#define DRIVERS_RUN_COVER_H

#include <stdbool.h>
#include <stdint.h>

struct cover {
    uint64_t **pieces; /* by address / 1 GiB; NULL = none yet */
};

enum cover_answer { COVER_FREE, COVER_TAKEN, COVER_NO_MEMORY };

/* False when out of memory. */
bool cover_open(struct cover *c);
/* Add a live block of `bytes` bytes (0 counts as 1) at `address`, and return what it covers. */
enum cover_answer cover_take(struct cover *c, const void *address, uint64_t bytes);
/* Remove a block that is no longer live. */
void cover_drop(struct cover *c, const void *address, uint64_t bytes);

#endif
