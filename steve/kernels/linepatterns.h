/* linepatterns.h - what executions of a pattern do to blocks, by line.
 *
 * Most of what linework.h counts comes in patterns, which tell site, kind and size once for all executions. So
 * the line of a site, which never changes, is looked up once, and where an access is its site's an execution
 * only counts itself; linework_settle makes rows of that. An access that belongs to whatever Lua instruction
 * the thread is at goes to the rows at once. Memory: O(accesses of patterns), which is code, not events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_LINEPATTERNS_H
#define STEVE_LINEPATTERNS_H

#include "steve/kernels/linework.h"

/* Know all patterns of a batch, after linework_learn; false when out of memory. */
bool linepatterns_learn_more(struct linework *w, const struct mt_packed *p);
/* Add to the rows what executions counted. */
void linepatterns_settle(struct linework *w);

static inline bool linepatterns_learn(struct linework *w, const struct mt_packed *p)
{
    return p->n_patterns <= w->n_patterns || linepatterns_learn_more(w, p);
}

/* Follow an access whose word lies at a place: does it belong to the thread's Lua instruction? Always inline,
 * so that the event made for it is never written out. */
__attribute__((always_inline)) static inline bool linepatterns_follow(struct luacode *c,
                                                                      const struct linework_access *known,
                                                                      const struct mt_pattern_access *a,
                                                                      const struct mt_place *place, uint16_t thread)
{
    const struct luacode_block *b = &c->blocks[place->slot];

    if (known->jitted) {
        c->threads[thread].now = (struct luacode_at){LUACODE_SITE, a->site};
        return false;
    }
    if (b->held) {
        struct mt_event e;

        luacode_event(c, a, place, thread, &e);
        luacode_fetch(c, &c->protos[b->held - 1], &e);
    }
    return b->lua;
}

/* An access whose word lies at a place. False when out of memory, here and below. */
__attribute__((always_inline)) static inline bool linepatterns_access(struct linework *w,
                                                                      struct linework_access *known,
                                                                      const struct mt_pattern_access *a,
                                                                      const struct mt_place *place, uint16_t thread)
{
    bool lua = linepatterns_follow(w->code, known, a, place, thread);
    const struct linework_block *b = linework_block_at(w, place->slot);
    uint32_t line = known->line;

    if (!b)
        return true;
    if (lua) {
        line = linework_lua_line(w, thread, a->site);
        linework_count(w, line, b->own == line + 1, known->kind, known->size);
    } else {
        known->times[b->own == line + 1]++;
    }
    return linework_touch(w, place->slot, place->addr + a->offset, known->size, line);
}

/* A pattern ran. */
static inline bool linepatterns_ran(struct linework *w, const struct mt_packed *p, const struct mt_step *step,
                                    const struct mt_place *places)
{
    const struct mt_pattern *pattern = &p->patterns[step->pattern];
    const struct mt_pattern_access *a = &p->accesses[pattern->first];
    struct linework_access *known = &w->accesses[pattern->first];

    for (const struct mt_pattern_access *end = a + pattern->count; a < end; a++, known++)
        if (places[a->word].slot < w->code->blocks_room &&
            !linepatterns_access(w, known, a, &places[a->word], step->thread))
            return false;
    return true;
}

#endif
