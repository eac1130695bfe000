/* lifetimes.h - for every block, how many accesses it and the others had while it lived, also as the text of the first
 * Steve's files: -lifetime and -statistics.
 *
 * own: accesses to the block; other: accesses to other blocks between its N and its F, or the end. The result
 * has one element for each block of the trace, since that is what it is for; nothing else grows with the
 * trace. Accesses to handles that are not live are not counted as anybody's.
 *
 * The text is written here because there are three numbers for each block of the trace. They are written as Python
 * would format them. steve/analysis/lifetimes.py sorts the blocks, and writes the text around them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_TOTALS_LIFETIMES_H
#define STEVE_KERNELS_TOTALS_LIFETIMES_H

#include "memtrace/ops.h"
#include "steve/kernels/base/handle_map.h"
#include "steve/kernels/base/text_writer.h"

struct lifetime {
    uint64_t handle, own, other;
};

struct lifetimes {
    struct handle_map live;
    uint64_t *ordinal; /* by index of the live block: its place in blocks */
    size_t room;
    struct lifetime *blocks; /* in order of the N; `other` of a live block holds the accesses before it */
    size_t n, blocks_room;
    uint64_t accesses, unmatched;
};

/* All return false when out of memory. */
bool lifetimes_init(struct lifetimes *l);
bool lifetimes_feed(struct lifetimes *l, const struct op *ops, size_t n);
void lifetimes_finish(struct lifetimes *l);
void lifetimes_free(struct lifetimes *l);

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
