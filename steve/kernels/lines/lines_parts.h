/* lines_parts.h - what lines do with blocks in a trace that is read in parts, each apart from the others.
 *
 * A part begins with the blocks that live there and who made them (lineparts_enter; the caller has found that
 * out, and what the struct luacode has to know of threads). What lines do to blocks it then counts as always,
 * but for pairs of a line and a block that crosses one of the part's borders: it tells pieces, which lines
 * these are. Pieces are added in the order of the parts (lineparts_add) to a struct linework of the whole
 * trace, which knows the lines of the blocks that live between two parts and counts the others. So it does
 * with cache lines, of which a part tells all (linepages_copy).
 *
 * A piece is made of words of 32 bits: slot, LINEPARTS_ flags, how many lines, the lines. A part has O(live
 * blocks x lines that touch them) of these.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LINES_LINES_PARTS_H
#define STEVE_KERNELS_LINES_LINES_PARTS_H

#include "steve/kernels/lines/lines.h"

#define LINEPARTS_EARLIER 1u /* the block was made before the part */
#define LINEPARTS_ENDED 2u   /* it ended in it; else it lives on */

/* All that return false are out of memory. A block lives where the part begins; stack: that of its New. */
bool lineparts_enter(struct linework *w, uint32_t slot, uint32_t stack);
/* The part is over: tell the pieces of blocks that live on. */
bool lineparts_finish(struct linework *w);

/* For steve/kernels/lives/lives_parts.c: a block made earlier was freed. */
bool lineparts_end(struct linework *w, uint32_t slot);

/* Add pieces, `n` words, and pages of the next part to the whole. Pieces that make no sense are left out. */
bool lineparts_add(struct linework *whole, const uint32_t *pieces, size_t n);
bool lineparts_add_pages(struct linework *whole, const struct linepage *pages, size_t n);

#endif
