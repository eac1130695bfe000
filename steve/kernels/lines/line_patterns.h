/* line_patterns.h - what executions of a pattern do to blocks, by line.
 *
 * Most of what lines.h counts comes in patterns, which tell site, kind and size once for all executions.
 * So the line of a site, which never changes, is looked up once, and what one word of a pattern does at one
 * line within 64 bytes is one *touch*: the same block and at most two cache lines, both of them touched,
 * whichever accesses lie between. Where a touch is its sites' own an execution counts that alone;
 * linepatterns_settle makes rows of it. What belongs to whatever Lua instruction the thread is at goes to the
 * rows at once. Memory: O(accesses of patterns), which is code, not events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LINES_LINE_PATTERNS_H
#define STEVE_KERNELS_LINES_LINE_PATTERNS_H

#include "steve/kernels/lines/lines.h"

/* Know all patterns of a batch, after linework_learn; false when out of memory. */
bool linepatterns_learn_more(struct linework *w, const struct mt_packed *p);
/* Add to the rows what executions counted. */
void linepatterns_settle(struct linework *w);

static inline bool linepatterns_learn(struct linework *w, const struct mt_packed *p)
{
    return (p->n_patterns <= w->n_patterns && w->learned_lua == w->code->follows) ||
           linepatterns_learn_more(w, p);
}

/* What follows the touches of a run. */
struct linepatterns_run {
    struct linework *work;
    struct luacode_thread *thread;
    uint32_t line; /* of what the thread does to Lua heaps now; LINEWORK_NONE: to be looked up */
    uint16_t number;
};

/* The next touch is one of a prototype, of 4 bytes: if it fetches an instruction, the thread is there now. */
static inline void linepatterns_fetch(struct linepatterns_run *run, const struct luacode_block *b,
                                      uint64_t addr)
{
    uint32_t place;

    if (!luacode_place(&run->work->code->protos[b->held - 1], addr - b->base, &place))
        return;
    run->thread->now = (struct luacode_at){LUACODE_PLACE, place};
    run->line = run->work->map.places[place];
}

/* Follow the next touch, of a block: is it its thread's Lua instruction that makes it? */
static inline bool linepatterns_follow(struct linepatterns_run *run, const struct linework_touch *t,
                                       const struct mt_place *place)
{
    const struct luacode_block *b = &run->work->code->blocks[place->slot];

    if (t->jitted) {
        run->thread->now = (struct luacode_at){LUACODE_SITE, t->site};
        run->line = LINEWORK_NONE;
        return false;
    }
    if (t->fetch && b->held)
        linepatterns_fetch(run, b, place->addr + t->from);
    return b->lua;
}

/* The line that does what a site does not do itself. */
static inline uint32_t linepatterns_line(struct linepatterns_run *run, uint32_t site)
{
    if (run->line != LINEWORK_NONE)
        return run->line;
    return linework_lua_line(run->work, run->number, site);
}

/* The next touch, whose word lies at a place. False when out of memory, here and below. */
static inline bool linepatterns_next(struct linepatterns_run *run, struct linework_touch *t,
                                     const struct mt_place *place)
{
    struct linework *w = run->work;
    bool lua = linepatterns_follow(run, t, place);
    struct linework_block *b = linework_block_at(w, place->slot);
    uint32_t line = t->line;
    uint64_t *blocks = &t->blocks;

    if (!b)
        return true;
    if (lua) {
        line = linepatterns_line(run, t->site);
        linework_count(linework_accesses_of(w, line, b), &w->sums[t - w->touches], 1);
        blocks = &w->rows[line].blocks;
    } else {
        t->times[b->own == line + 1]++;
    }
    return linework_touch(w, b, place->addr + t->from, t->extent, line, blocks);
}

/* A pattern ran where nothing is Lua's but its sites' own. */
static inline bool linepatterns_sites(struct linework *w, const struct linework_pattern *known,
                                      const struct mt_place *places)
{
    struct linework_touch *t = &w->touches[known->first];

    for (const struct linework_touch *end = t + known->n; t < end; t++) {
        const struct mt_place *place = &places[t->word];
        struct linework_block *b = linework_block_at(w, place->slot);

        if (!b)
            continue;
        t->times[b->own == t->line + 1]++;
        if (!linework_touch(w, b, place->addr + t->from, t->extent, t->line, &t->blocks))
            return false;
    }
    return true;
}

/* A pattern ran that is all machine code of traces: its last access tells where the thread is. */
static inline void linepatterns_stay(struct luacode *c, const struct mt_pattern_access *a, unsigned n,
                                     const struct mt_place *places, uint16_t thread)
{
    while (n > 0 && places[a[n - 1].word].slot >= c->blocks_room)
        n--;
    if (n > 0)
        c->threads[thread].now = (struct luacode_at){LUACODE_SITE, a[n - 1].site};
}

/* A pattern ran some of which may be a Lua instruction's. */
static inline bool linepatterns_lua(struct linework *w, const struct linework_pattern *known,
                                    const struct mt_place *places, uint16_t thread)
{
    struct linepatterns_run run = {w, &w->code->threads[thread], LINEWORK_NONE, thread};
    struct linework_touch *t = &w->touches[known->first];

    for (const struct linework_touch *end = t + known->n; t < end; t++)
        if (places[t->word].slot < w->code->blocks_room && !linepatterns_next(&run, t, &places[t->word]))
            return false;
    return true;
}

/* A pattern ran. */
static inline bool linepatterns_ran(struct linework *w, const struct mt_packed *p, const struct mt_step *step,
                                    const struct mt_place *places)
{
    const struct mt_pattern *pattern = &p->patterns[step->pattern];
    const struct linework_pattern *known = &w->patterns[step->pattern];

    if (w->code->follows && !known->jitted)
        return linepatterns_lua(w, known, places, step->thread);
    if (w->code->follows)
        linepatterns_stay(w->code, &p->accesses[pattern->first], pattern->count, places, step->thread);
    return linepatterns_sites(w, known, places);
}

#endif
