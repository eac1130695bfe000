/* patternruns.h - how often each pattern of a packed batch ran.
 *
 * What executions of a pattern do alike, such as loads of so many bytes by its sites, is added up once for
 * all of them: not for each one, since numbers that are changed again and again wait for each other. Which
 * patterns ran is listed, so that taking the sum costs no more than the steps did. Memory: O(patterns).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_PATTERNRUNS_H
#define STEVE_PATTERNRUNS_H

#include "steve/kernels/grow.h"

struct patternruns {
    uint32_t *runs; /* by pattern id */
    uint32_t *met;  /* ids of those that ran, n_met of them */
    size_t n_met, runs_room, met_room;
};

static inline void patternruns_free(struct patternruns *p)
{
    free(p->runs);
    free(p->met);
}

/* Before a batch in which pattern ids are below n: false when out of memory. */
static inline bool patternruns_reserve(struct patternruns *p, size_t n)
{
    return grow(&p->runs, &p->runs_room, n, sizeof *p->runs) &&
           grow(&p->met, &p->met_room, n + 1, sizeof *p->met);
}

static inline void patternruns_add(struct patternruns *p, uint32_t pattern)
{
    p->met[p->n_met] = pattern;
    p->n_met += p->runs[pattern]++ == 0;
}

/* One of those that ran and how often, which is forgotten; false when there are no more. */
static inline bool patternruns_take(struct patternruns *p, uint32_t *pattern, uint32_t *runs)
{
    if (p->n_met == 0)
        return false;
    *pattern = p->met[--p->n_met];
    *runs = p->runs[*pattern];
    p->runs[*pattern] = 0;
    return true;
}

#endif
