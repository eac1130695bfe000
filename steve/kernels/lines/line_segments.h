/* line_segments.h - what executions of a segment do to blocks, by line.
 *
 * Most accesses come in segments, which have site, kind and size once for all executions. So the line of a site, which
 * never changes, is looked up once. The accesses of one word of a segment at one line within 64 bytes form one *touch*:
 * they are in the same block, and in at most two cache lines. If the accesses of a touch belong to their sites, an
 * execution is only counted, and line_segments_settle adds the counts to the rows. If they belong to the Lua
 * instruction of the thread, they are added to the rows at once. Memory: O(accesses of segments), which depends on
 * the code of the program, not on the number of events.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LINES_LINE_SEGMENTS_H
#define STEVE_KERNELS_LINES_LINE_SEGMENTS_H

#include "steve/kernels/lines/lines.h"

/* Know all segments of a batch, after linework_learn; false when out of memory. */
bool line_segments_learn_more(struct linework *w, const struct mt_batch *p);
/* Add to the rows what executions counted. */
void line_segments_settle(struct linework *w);

static inline bool line_segments_learn(struct linework *w, const struct mt_batch *p)
{
    return (p->n_segments <= w->n_segments && w->learned_lua == w->code->follows) ||
           line_segments_learn_more(w, p);
}

/* What follows the touches of a run. */
struct line_segments_run {
    struct linework *work;
    struct luacode_thread *thread;
    uint32_t line; /* of what the thread does to Lua heaps now; LINEWORK_NONE: to be looked up */
    uint16_t number;
};

/* The next touch is one of a prototype, of 4 bytes: if it fetches an instruction, the thread is there now. */
static inline void line_segments_fetch(struct line_segments_run *run, const struct luacode_block *b,
                                       uint64_t addr)
{
    uint32_t place;

    if (!luacode_place(&run->work->code->protos[b->held - 1], addr - b->base, &place))
        return;
    run->thread->now = (struct luacode_at){LUACODE_PLACE, place};
    run->line = run->work->map.places[place];
}

/* Follow the next touch, of a block: is it its thread's Lua instruction that makes it? */
static inline bool line_segments_follow(struct line_segments_run *run, const struct linework_touch *t,
                                        const struct mt_place *place)
{
    const struct luacode_block *b = &run->work->code->blocks[place->slot];

    if (t->jitted) {
        run->thread->now = (struct luacode_at){LUACODE_SITE, t->site};
        run->line = LINEWORK_NONE;
        return false;
    }
    if (t->fetch && b->held)
        line_segments_fetch(run, b, place->addr + t->from);
    return b->lua;
}

/* The line that does what a site does not do itself. */
static inline uint32_t line_segments_line(struct line_segments_run *run, uint32_t site)
{
    if (run->line != LINEWORK_NONE)
        return run->line;
    return linework_lua_line(run->work, run->number, site);
}

/* The next touch, whose word lies at a place. False when out of memory, here and below. */
static inline bool line_segments_next(struct line_segments_run *run, struct linework_touch *t,
                                      const struct mt_place *place)
{
    struct linework *w = run->work;
    bool lua = line_segments_follow(run, t, place);
    struct linework_block *b = linework_block_at(w, place->slot);
    uint32_t line = t->line;
    uint64_t *blocks = &t->blocks;

    if (!b)
        return true;
    if (lua) {
        line = line_segments_line(run, t->site);
        access_sums_add(linework_accesses_of(w, line, b), &w->sums[t - w->touches], 1);
        blocks = &w->rows[line].blocks;
    } else {
        t->times[b->own == line + 1]++;
    }
    return linework_touch(w, b, place->addr + t->from, t->extent, line, blocks);
}

/* A segment ran where nothing is Lua's but its sites' own. */
static inline bool line_segments_sites(struct linework *w, const struct linework_segment *known,
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

/* A segment ran some of which may be a Lua instruction's. */
static inline bool line_segments_lua(struct linework *w, const struct linework_segment *known,
                                     const struct mt_place *places, uint16_t thread)
{
    struct line_segments_run run = {w, &w->code->threads[thread], LINEWORK_NONE, thread};
    struct linework_touch *t = &w->touches[known->first];

    for (const struct linework_touch *end = t + known->n; t < end; t++)
        if (places[t->word].slot < w->code->blocks_room && !line_segments_next(&run, t, &places[t->word]))
            return false;
    return true;
}

/* A segment ran. */
static inline bool line_segments_ran(struct linework *w, const struct mt_batch *p, const struct mt_step *step,
                                     const struct mt_place *places)
{
    const struct mt_segment_word *segment = &p->segments[step->segment];
    const struct linework_segment *known = &w->segments[step->segment];

    if (w->code->follows && !known->jitted)
        return line_segments_lua(w, known, places, step->thread);
    if (w->code->follows)
        luacode_stay(w->code, &p->accesses[segment->first], segment->count, places, step->thread);
    return line_segments_sites(w, known, places);
}

#endif
