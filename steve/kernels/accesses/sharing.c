/* sharing.c - memory that several threads access; see sharing.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/accesses/sharing.h"

#include "memtrace/base/array.h"
#include "steve/kernels/base/walk.h"

bool sharing_init(struct sharing *s)
{
    memset(s, 0, sizeof *s);
    return sharinglines_init(&s->lines);
}

void sharing_free(struct sharing *s)
{
    sharinglines_free(&s->lines);
    free(s->rows);
    free(s->blocks);
    free(s->pieces);
}

/* Have the row of a stack. */
static bool reach(struct sharing *s, uint32_t stack)
{
    return array_grow(&s->rows, &s->rows_room, (size_t)stack + 1, sizeof *s->rows);
}

static bool piece_add(struct sharing *s, const struct sharing_block *b, bool freed)
{
    if (!array_grow(&s->pieces, &s->pieces_room, s->n_pieces + 1, sizeof *s->pieces))
        return false;
    s->pieces[s->n_pieces++] =
        (struct sharing_piece){.block = *b, .slot = (uint32_t)(b - s->blocks), .freed = freed};
    return true;
}

/* A block was freed. */
static bool end_block(struct sharing *s, struct sharing_block *b)
{
    b->live = false;
    return !b->earlier || piece_add(s, b, true);
}

static bool block_new(struct sharing *s, const struct mt_event *e)
{
    if (!array_grow(&s->blocks, &s->blocks_room, (size_t)e->slot + 1, sizeof *s->blocks) || !reach(s, e->ref))
        return false;
    if (s->blocks[e->slot].live && !end_block(s, &s->blocks[e->slot])) /* its Free was lost */
        return false;
    s->blocks[e->slot] = (struct sharing_block){.size = e->size, .stack = e->ref, .live = true};
    s->rows[e->ref].blocks++;
    return true;
}

static uint64_t bits(unsigned first, unsigned last)
{
    return (last == 63 ? UINT64_MAX : ((uint64_t)1 << (last + 1)) - 1) & ~(((uint64_t)1 << first) - 1);
}

/* The part of first ... last that lies in a line, from the line's begin. */
static struct sharing_place place_in(uint64_t number, uint64_t first, uint64_t last)
{
    return (struct sharing_place){.first = number == first / SHARING_LINE ? first % SHARING_LINE : 0,
                                  .last =
                                      number == last / SHARING_LINE ? last % SHARING_LINE : SHARING_LINE - 1};
}

static bool touch(struct sharing *s, const struct sharing_block *b, const struct mt_event *e)
{
    uint64_t last = e->addr + e->size - 1, begin = e->addr - e->offset,
             end = begin + (b->size ? b->size - 1 : 0);

    for (uint64_t number = e->addr / SHARING_LINE; number <= last / SHARING_LINE; number++) {
        struct sharing_place own = place_in(number, e->addr, last), block = place_in(number, begin, end);
        struct sharing_use *use;

        block.handle = (uint32_t)e->handle;
        block.thread = e->thread;
        if (!sharinglines_visit(&s->lines, number, block, &use))
            return false;
        if (use)
            sharinglines_note(&s->lines, use,
                              &(struct sharing_access){.bytes = bits(own.first, own.last),
                                                       .offset = (int64_t)(number * SHARING_LINE - begin),
                                                       .stack = b->stack,
                                                       .writes = e->kind != MT_LOAD});
    }
    return true;
}

static bool block_access(struct sharing *s, struct sharing_block *b, const struct mt_event *e)
{
    struct sharing_row *row = &s->rows[b->stack];

    row->accesses++;
    if (b->thread == 0) {
        b->thread = e->thread;
        b->first_size = b->size;
    } else if (b->thread != e->thread && !b->shared) {
        b->shared = true;
        b->shared_size = b->size;
        if (!b->earlier) {
            row->shared++;
            row->shared_bytes += b->size;
        }
    }
    return sharinglines_tick(&s->lines, e->thread) && (e->size == 0 || touch(s, b, e));
}

static bool step(struct sharing *s, const struct mt_event *e)
{
    struct sharing_block *b =
        e->slot < s->blocks_room && s->blocks[e->slot].live ? &s->blocks[e->slot] : NULL;

    if (e->kind == MT_NEW)
        return block_new(s, e);
    if (!b)
        return true;
    if (e->kind == MT_FREE)
        return end_block(s, b);
    if (e->kind == MT_RESIZE)
        b->size = e->size;
    else if (!e->freed)
        return block_access(s, b, e);
    return true;
}

bool sharing_feed(struct sharing *s, const struct mt_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (events[i].kind <= MT_MODIFY && !step(s, &events[i]))
            return false;
    return true;
}

bool sharing_finish(struct sharing *s)
{
    return sharinglines_finish(&s->lines);
}

/* ---- a shard ------------------------------------------------------------------------------- */

bool sharing_shard_enter(struct sharing *s, const struct mt_live_block *live, uint32_t stack)
{
    if (!array_grow(&s->blocks, &s->blocks_room, (size_t)live->slot + 1, sizeof *s->blocks) ||
        !reach(s, stack))
        return false;
    s->blocks[live->slot] =
        (struct sharing_block){.size = live->size, .stack = stack, .live = true, .earlier = true};
    return true;
}

static void copy_list(const struct sharinglines *l, uint32_t index, struct sharing_use **to, uint32_t *n)
{
    for (; index != SHARING_NONE; index = l->uses[index].next) {
        *(*to)++ = l->uses[index];
        ++*n;
    }
}

/* The use with that index, if there is one. */
static bool copy_one(const struct sharinglines *l, uint32_t index, struct sharing_use **to)
{
    if (index == SHARING_NONE)
        return false;
    *(*to)++ = l->uses[index];
    return true;
}

static void report_line(const struct sharinglines *l, uint64_t number, uint32_t index,
                        struct sharing_reported *t, struct sharing_use **to)
{
    const struct sharing_line *line = &l->lines[index];
    const struct sharing_head *head = &l->heads[index];
    bool ended = head->ended;
    uint32_t run = ended ? head->run : line->run == head->first ? SHARING_NONE : line->run;

    *t = (struct sharing_reported){
        .number = number, .first_place = head->place, .place = line->place, .ended = ended};
    copy_one(l, head->first, to);
    copy_list(l, ended ? head->counted : line->counted, to, &t->head_counted);
    t->head_run = copy_one(l, run, to);
    if (!ended)
        return;
    t->first = line->first;
    t->run = copy_one(l, line->run, to);
    copy_list(l, line->counted, to, &t->counted);
}

bool sharing_shard_finish(struct sharing *s)
{
    for (size_t i = 0; i < s->blocks_room; i++)
        if (s->blocks[i].live && !piece_add(s, &s->blocks[i], false))
            return false;
    return true;
}

size_t sharing_shard_report(const struct sharing *s, struct sharing_reported *reported,
                            struct sharing_use *uses)
{
    const struct sharinglines *l = &s->lines;
    struct sharing_use *to = uses;

    for (size_t i = 0; i <= l->map.mask; i++)
        if (l->map.entries[i].key != 0)
            report_line(l, l->map.entries[i].key - 1, l->map.entries[i].index, reported++, &to);
    return (size_t)(to - uses);
}

/* ---- the whole: lines ---------------------------------------------------------------------- */

/* The uses of a part one after the other, with clocks that began with the trace. */
struct reading {
    const struct sharing_use *next;
    const uint64_t *clocks; /* by thread: before the part */
};

static struct sharing_use use_read(struct reading *r)
{
    struct sharing_use use = *r->next++;

    use.start += r->clocks[use.thread];
    use.end += r->clocks[use.thread];
    return use;
}

static bool run_read(struct sharinglines *l, struct sharing_line *line, struct reading *r)
{
    struct sharing_use use = use_read(r);

    line->run = sharinglines_keep(l, &use);
    return line->run != SHARING_NONE;
}

static bool counted_read(struct sharinglines *l, struct sharing_line *line, struct reading *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sharing_use use = use_read(r);
        uint32_t kept = sharinglines_keep(l, &use);

        if (kept == SHARING_NONE)
            return false;
        sharinglines_count(l, line, kept);
    }
    return true;
}

/* The last run of a line was not the last. */
static void run_counts(struct sharinglines *l, struct sharing_line *line)
{
    if (line->run != SHARING_NONE)
        sharinglines_count(l, line, line->run);
    line->run = SHARING_NONE;
}

/* The first run of a part: the next of the episode, or more of its last one, or the first of an episode. */
static bool add_first(struct sharinglines *l, struct sharing_line *line, const struct sharing_reported *t,
                      struct reading *r)
{
    uint16_t before = line->place.thread;
    struct sharing_use use;

    if (before != 0 && before != t->first_place.thread) {
        if (!sharinglines_is_other_life(&line->place, &t->first_place)) {
            run_counts(l, line);
            return run_read(l, line, r);
        }
        if (!sharinglines_end(l, t->number, line))
            return false;
    }
    use = use_read(r);
    if (before != use.thread)
        line->first = (struct sharing_first){
            .end = use.end, .span = sharinglines_span(use.start, use.end), .thread = use.thread};
    else if (line->run != SHARING_NONE)
        sharinglines_go_on(&l->uses[line->run], &use);
    else
        sharinglines_prolong(&line->first, use.end);
    return true;
}

static bool add_last_episode(struct sharinglines *l, struct sharing_line *line,
                             const struct sharing_reported *t, struct reading *r)
{
    if (!sharinglines_end(l, t->number, line))
        return false;
    line->first.thread = 0; /* the part knew the first run when it counted the others */
    if ((t->run && !run_read(l, line, r)) || !counted_read(l, line, r, t->counted))
        return false;
    line->first = t->first;
    line->first.end += r->clocks[t->first.thread];
    return true;
}

static bool add_line(struct sharinglines *l, const struct sharing_reported *t, struct reading *r)
{
    struct sharing_line *line = sharinglines_at(l, t->number);

    if (!line || !add_first(l, line, t, r))
        return false;
    if (t->head_run) {
        run_counts(l, line);
        if (!counted_read(l, line, r, t->head_counted) || !run_read(l, line, r))
            return false;
    }
    if (t->ended && !add_last_episode(l, line, t, r))
        return false;
    line->place = t->place;
    return true;
}

static void add_changes(struct sharinglines *l, const struct sharing_part *p)
{
    if (p->first_thread == 0)
        return;
    l->changes += p->changes + (l->thread != 0 && l->thread != p->first_thread);
    l->thread = p->thread;
}

static bool add_lines(struct sharinglines *l, const struct sharing_part *p)
{
    struct reading r = {.next = p->uses};

    if (!array_grow(&l->clocks, &l->clocks_room, p->n_clocks, sizeof *l->clocks))
        return false;
    r.clocks = l->clocks;
    for (size_t i = 0; i < p->n_reported; i++)
        if (!add_line(l, &p->reported[i], &r))
            return false;
    for (size_t i = 0; i < p->n_clocks; i++)
        l->clocks[i] += p->clocks[i];
    add_changes(l, p);
    return true;
}

/* ---- the whole: blocks --------------------------------------------------------------------- */

/* A block is seen to be shared that was not. */
static void share(struct sharing_row *row, struct sharing_block *b, uint64_t size)
{
    if (b->shared)
        return;
    b->shared = true;
    row->shared++;
    row->shared_bytes += size;
}

/* What a part did to a block made before it. */
static void add_piece(struct sharing *whole, struct sharing_block *b, const struct sharing_block *piece)
{
    struct sharing_row *row = &whole->rows[b->stack];

    if (piece->thread == 0)
        return;
    if (b->thread == 0)
        b->thread = piece->thread;
    else if (b->thread != piece->thread)
        share(row, b, piece->first_size);
    if (piece->shared)
        share(row, b, piece->shared_size);
}

static bool add_pieces(struct sharing *whole, const struct sharing_part *part)
{
    for (const struct sharing_piece *p = part->pieces; p < part->pieces + part->n_pieces; p++) {
        struct sharing_block *b;

        if (!array_grow(&whole->blocks, &whole->blocks_room, (size_t)p->slot + 1, sizeof *whole->blocks) ||
            !reach(whole, p->block.stack))
            return false;
        b = &whole->blocks[p->slot];
        if (!p->block.earlier)
            *b = p->block;
        else if (b->live)
            add_piece(whole, b, &p->block);
        b->live = !p->freed;
    }
    return true;
}

bool sharing_merge(struct sharing *whole, const struct sharing_part *part)
{
    return add_lines(&whole->lines, part) && add_pieces(whole, part);
}
