/* patternruns.h - how often each pattern of a packed batch ran, and what one run does.
 *
 * What executions of a pattern do alike, such as loads of so many bytes by its sites, is added up once for
 * all of them: not for each one, since numbers that are changed again and again wait for each other. Nearly
 * always all words of a pattern lie in blocks; those that do not are counted, and taken off. Which patterns
 * ran is listed, so that taking the sum costs no more than the steps did. Memory: O(patterns).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_PATTERNRUNS_H
#define STEVE_PATTERNRUNS_H

#include <stdbool.h>

#include "memtrace/memtrace.h"

/* Accesses by kind, from MT_LOAD: how many, of how many bytes. */
struct access_sums {
    uint64_t counts[3], bytes[3];
};

/* A word of a pattern; what belongs to the pattern stands in its first word's. */
struct patternruns_word {
    struct access_sums all, own; /* what a run of the pattern does, and what this word of it */
    uint64_t runs;               /* of the pattern, since they were last settled */
    uint64_t absent;             /* of those, in how many the word did not count */
};

struct patternruns {
    struct patternruns_word *words; /* by id + word */
    size_t n, room;
    uint32_t *met; /* ids of patterns that ran, n_met of them */
    size_t n_met, met_room;
};

void patternruns_free(struct patternruns *r);
/* Know all patterns of a batch; false when out of memory. */
bool patternruns_learn_more(struct patternruns *r, const struct mt_packed *p);

static inline bool patternruns_learn(struct patternruns *r, const struct mt_packed *p)
{
    return p->n_patterns <= r->n || patternruns_learn_more(r, p);
}

static inline void access_sums_add(struct access_sums *to, const struct access_sums *what)
{
    for (unsigned i = 0; i < 3; i++) {
        to->counts[i] += what->counts[i];
        to->bytes[i] += what->bytes[i];
    }
}

static inline void access_sums_take(struct access_sums *from, const struct access_sums *what)
{
    for (unsigned i = 0; i < 3; i++) {
        from->counts[i] -= what->counts[i];
        from->bytes[i] -= what->bytes[i];
    }
}

/* A pattern ran in a thread, whose sums are told. */
static inline void patternruns_add(struct patternruns *r, uint32_t id, struct access_sums *thread)
{
    r->met[r->n_met] = id;
    r->n_met += r->words[id].runs++ == 0;
    access_sums_add(thread, &r->words[id].all);
}

/* But a word of it did not count. */
static inline void patternruns_absent(struct patternruns *r, uint32_t word, struct access_sums *thread)
{
    r->words[word].absent++;
    access_sums_take(thread, &r->words[word].own);
}

/* Add what ran to the sums of its sites, and forget it; sites that are not known count as number 0. */
void patternruns_settle(struct patternruns *r, const struct mt_packed *p, struct access_sums *sites,
                        size_t n_sites);

#endif
