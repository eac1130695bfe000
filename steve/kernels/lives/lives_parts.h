/* lives_parts.h - lives of blocks in a trace that is read in parts, each apart from the others.
 *
 * A part begins with the blocks that live there (livesparts_enter). The lives of blocks that it makes and
 * ends come out as always; of a block that crosses one of its borders it tells a piece: what happened to it
 * meanwhile. Pieces are added in the order of the parts (livesparts_add) to a struct lives of the whole
 * trace, which keeps the blocks that live between two parts and has a record of each that ended, as if it had
 * seen all.
 *
 * Numbers in a piece count from the beginning of the part. What a part does not know of a block made earlier
 * is left open: which parts of it had been used (struct usedparts_map tells what its Resizes do to them), and
 * who made it
 * (`thread` is who accessed it first in this part, `shared`: others did as well). The heap is known where a
 * part begins, so a peak of the part is one of the whole if it is higher than all before.
 *
 * Pieces are handed from one process to another as they are. A part has O(live blocks) of them: a block that
 * nothing happened to has none.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_LIVES_PARTS_H
#define STEVE_KERNELS_LIVES_LIVES_PARTS_H

#include "steve/kernels/lives/lives.h"

#define LIVESPARTS_UNTOLD UINT8_MAX /* a type: that of before */

struct lives_piece {
    struct lives_block block;
    struct usedparts_map map;  /* of blocks made earlier */
    struct lives_moment ended; /* if it did */
    uint32_t slot;
    uint16_t free_thread;
    uint8_t freed; /* it ended in this part; else it lives on */
};

/* A block lives where the part begins. All are told before anything is fed; false when out of memory. */
bool livesparts_enter(struct lives *l, const struct mt_live_block *live);
/* Instead of lives_finish: pieces of the blocks that live on. False when out of memory. */
bool livesparts_finish(struct lives *l);

/* For lives.c: a block made earlier was freed. */
bool livesparts_end(struct lives *l, struct lives_block *b, uint16_t thread);

/* Add the pieces of the next part to the whole, with the part's totals; began: what these were when all
 * blocks had entered. Records come out in whole->out. False when out of memory. */
bool livesparts_add(struct lives *whole, const struct lives_piece *pieces, size_t n,
                    const struct lives_totals *part, const struct lives_totals *began);

#endif
