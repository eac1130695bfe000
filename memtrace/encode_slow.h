/* encode_slow.h - the general case of encode.c: segments of which something was not expected.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_ENCODE_SLOW_H
#define MEMTRACE_ENCODE_SLOW_H

#include "encode.h"

/* Code one run of a segment: find out what it is to, code it if it is to a block, and count it. `taken` words
 * have been taken already, as guessed; live: some of them are not foreign. */
void code_segment(struct encoder *e, const struct surroundings *in, uint32_t segment, const uint64_t *words,
                  uint32_t taken, bool live);
/* The same of one access that stands alone. */
void code_access(struct encoder *e, const struct surroundings *in, uint32_t site, uint64_t addr);

/* Write the token that ends the run of hits. */
void put_token(struct encoder *e, unsigned misses);

/* Forget the foreign pages if blocks may have come to lie there. */
void check_foreign(struct encoder *e, const struct surroundings *in);

static inline bool foreign_page(const uint64_t *pages, uint64_t addr)
{
    return pages[addr >> PAGE_BITS & (FOREIGN_PAGES - 1)] == (addr >> PAGE_BITS) + 1;
}

/* Is a word in the guessed place, and that in a block? One test: what is right together is told by one
 * branch. */
static inline bool is_guessed(const struct block *blocks, const struct word_state *s, uint64_t lowest,
                              struct guess g)
{
    const struct block *block = &blocks[g.slot];
    uint64_t offset = lowest - block->base;
    return (lowest == g.addr) & (offset < block->size) & (s->span < block->size - offset);
}

#endif
