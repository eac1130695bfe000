/* lifetime_text.h - lifetimes of blocks as the text of the first Steve's files: -lifetime and -statistics.
 *
 * This is a kernel because there are three numbers for each block of the trace. They are written as Python would format
 * them. steve/analysis/lifetimes.py sorts the blocks, and writes the text around them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_TOTALS_LIFETIME_TEXT_H
#define STEVE_KERNELS_TOTALS_LIFETIME_TEXT_H

#include "steve/kernels/base/text_writer.h"
#include "steve/kernels/totals/lifetimes.h"

/* The lifetime in a line: other / own accesses with two decimals, or (own + other) / all in whole percent. */
enum lifetext_kind { LIFETEXT_MICRO, LIFETEXT_MACRO };

struct lifetext {
    struct textout *out;
    const struct lifetime *blocks;
    enum lifetext_kind kind;
    bool compat;       /* a block without accesses of its own counts as having one, as in the first Steve */
    uint64_t accesses; /* of all blocks */
};

/* `"HANDLE": [own, other]` of n blocks with ", " between; ahead: one before the first, too. */
void lifetext_pairs(struct textout *out, const struct lifetime *blocks, size_t n, bool ahead);

/* `# HANDLE: LIFETIME (own = N, other = N)`, a line for each of n numbers of blocks. */
void lifetext_lines(const struct lifetext *t, const int64_t *order, size_t n);

#endif
