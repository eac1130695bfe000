/* lines_shards.h - counts by line in shards of a trace.
 *
 * The blocks that live at the beginning of a shard are entered first, with the stacks of their News
 * (lines_shard_enter). The caller gets these, and what the struct luacode must know of threads, from a checkpoint. The
 * shard counts all accesses, and the pairs of a line and a block whose life lies in the shard. For a block that
 * crosses a border, it reports a piece: the lines that accessed the block. Pieces are added in the order of the
 * shards (linework_merge) to a struct linework of the whole trace, which keeps the lines of blocks that live between
 * two shards, and counts each pair once. Of cache lines, a shard reports all pairs (linepages_copy).
 *
 * A piece consists of words of 32 bits: slot, LINEPARTS_ flags, number of lines, the lines. A shard has O(live blocks x
 * lines that touch them) of these.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LINES_LINES_SHARDS_H
#define STEVE_KERNELS_LINES_LINES_SHARDS_H

#include "steve/kernels/lines/lines.h"

#define LINEPARTS_EARLIER 1u /* the block was made before the shard */
#define LINEPARTS_ENDED 2u   /* it ended in the shard; else it lives on */

/* All return false when out of memory. Enter a block that lives at the beginning of the shard; stack: of its New. */
bool lines_shard_enter(struct linework *w, uint32_t slot, uint32_t stack);
/* At the end of the shard: add the pieces of blocks that live on. */
bool lines_shard_finish(struct linework *w);

/* For steve/kernels/lives/lives_shards.c: a block made earlier was freed. */
bool lines_shard_end(struct linework *w, uint32_t slot);

/* Add the pieces, `n` words, and the pages of the next shard to the whole. Invalid pieces are ignored. */
bool linework_merge(struct linework *whole, const uint32_t *pieces, size_t n);
bool linework_merge_pages(struct linework *whole, const struct linepage *pages, size_t n);

#endif
