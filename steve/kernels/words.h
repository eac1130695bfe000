/* words.h - what one run of a pattern does to memory, by its words: so many loads of so many bytes...
 *
 * A packed trace (mt_next_packed) tells only which pattern ran and where its words lay. Whoever adds up
 * accesses by block or in all needs no more than these sums, which are made once for each pattern. Memory:
 * O(patterns), which is code, not events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_WORDS_H
#define STEVE_WORDS_H

#include "memtrace/memtrace.h"

/* One word of a pattern; the arrays by kind of access, from MT_LOAD. */
struct word_sum {
    uint64_t runs;      /* for the caller: how often the pattern ran, in its first word, */
    uint64_t times;     /* and how often the word did */
    uint64_t bytes[3];  /* accessed */
    uint32_t counts[3]; /* accesses */
    bool first;         /* of its pattern */
};

struct words {
    struct word_sum *sums; /* by pattern id + word */
    size_t n, room;
};

void words_free(struct words *w);
/* Know all patterns of a batch; false when out of memory. */
bool words_learn_more(struct words *w, const struct mt_packed *p);

static inline bool words_learn(struct words *w, const struct mt_packed *p)
{
    return p->n_patterns <= w->n || words_learn_more(w, p);
}

#endif
