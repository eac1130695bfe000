/* lives_shards.h - lives of blocks in shards of a trace.
 *
 * The blocks that live at the beginning of a shard are entered first (lives_shard_enter). Lives that begin and end in
 * the shard are written as records. For a block that crosses a border, the shard reports a piece: what happened to
 * the block in the shard. Pieces are added in the order of the shards (lives_merge) to a struct lives of the
 * whole trace. It keeps the blocks that live between two shards, and writes the same records as one walk would.
 *
 * Numbers in a piece count from the beginning of the shard. A shard does not know two things of a block made
 * earlier. The first is which of its parts had been used; struct usedparts_map has the effect of the block's Resizes
 * on them. The second is the thread that made it; `thread` is the one that accessed it first in the shard, and
 * `shared` is set if others accessed it too. The size of the heap at the beginning of a shard is known, so a peak of
 * the shard is a peak of the whole if it is higher than all before.
 *
 * Pieces are sent between processes as bytes. A shard has O(live blocks) of them: none for a block without events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_LIVES_SHARDS_H
#define STEVE_KERNELS_LIVES_LIVES_SHARDS_H

#include "steve/kernels/lives/lives.h"

#define LIVESPARTS_SAME UINT8_MAX /* a type: that of before the shard */

struct lives_piece {
    struct lives_block block;
    struct usedparts_map map;  /* of blocks made earlier */
    struct lives_moment ended; /* if it ended in this shard */
    uint32_t slot;
    uint16_t free_thread;
    uint8_t freed; /* it ended in this shard; else it lives on */
};

/* Enter a block that lives at the beginning of the shard, before anything is fed. False when out of memory. */
bool lives_shard_enter(struct lives *l, const struct mt_live_block *live);
/* Instead of lives_finish: add pieces of the blocks that live on. False when out of memory. */
bool lives_shard_finish(struct lives *l);

/* For lives.c: a block made earlier was freed. */
bool lives_shard_end(struct lives *l, struct lives_block *b, uint16_t thread);

/* Add the pieces of the next shard to the whole, with the shard's totals. began: the totals after all blocks were
 * entered. Records are written to whole->out. False when out of memory. */
bool lives_merge(struct lives *whole, const struct lives_piece *pieces, size_t n,
                 const struct lives_totals *part, const struct lives_totals *began);

#endif
