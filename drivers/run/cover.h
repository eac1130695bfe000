/* cover.h - which addresses live blocks cover, to find blocks that overlap when the second one is made.
 *
 * One bit for every STEVE_ALIGNMENT bytes. Blocks begin at multiples of that, so two blocks share a bit exactly if
 * they overlap. Bits are kept in pieces of 1 GiB of addresses, which are made when they are first needed.
 * Not for blocks that move: their addresses change without a call.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_COVER_H
#define DRIVERS_RUN_COVER_H

#include <stdbool.h>
#include <stdint.h>

struct cover {
    uint64_t **pieces; /* by address / 1 GiB; NULL: none yet */
};

enum cover_answer { COVER_FREE, COVER_TAKEN, COVER_NO_MEMORY };

/* False: no memory. */
bool cover_open(struct cover *c);
/* A block of `bytes` bytes (0 counts as 1) is live at `address` from now on. What was it that it covers? */
enum cover_answer cover_take(struct cover *c, const void *address, uint64_t bytes);
/* It is not live any more. */
void cover_drop(struct cover *c, const void *address, uint64_t bytes);

#endif
