/* sharing_shards.c - memory that several threads access in parts of a trace; see sharing_shards.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/accesses/sharing_shards.h"

#include "memtrace/base/array.h"

/* Have the row of a stack. */
static bool reach(struct sharing *s, uint32_t stack)
{
    return array_grow(&s->rows, &s->rows_room, (size_t)stack + 1, sizeof *s->rows);
}

/* ---- a part -------------------------------------------------------------------------------- */

bool sharing_shard_enter(struct sharing *s, const struct mt_live_block *live, uint32_t stack)
{
    if (!array_grow(&s->blocks, &s->blocks_room, (size_t)live->slot + 1, sizeof *s->blocks) ||
        !reach(s, stack))
        return false;
    s->blocks[live->slot] =
        (struct sharing_block){.size = live->size, .stack = stack, .live = true, .earlier = true};
    return true;
}

static bool put_piece(struct sharing *s, const struct sharing_block *b, bool freed)
{
    if (!array_grow(&s->pieces, &s->pieces_room, s->n_pieces + 1, sizeof *s->pieces))
        return false;
    s->pieces[s->n_pieces++] =
        (struct sharing_piece){.block = *b, .slot = (uint32_t)(b - s->blocks), .freed = freed};
    return true;
}

bool sharing_shard_end(struct sharing *s, struct sharing_block *b)
{
    b->live = false;
    return !b->earlier || put_piece(s, b, true);
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
        if (s->blocks[i].live && !put_piece(s, &s->blocks[i], false))
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

static struct sharing_use take(struct reading *r)
{
    struct sharing_use use = *r->next++;

    use.start += r->clocks[use.thread];
    use.end += r->clocks[use.thread];
    return use;
}

static bool take_run(struct sharinglines *l, struct sharing_line *line, struct reading *r)
{
    struct sharing_use use = take(r);

    line->run = sharinglines_keep(l, &use);
    return line->run != SHARING_NONE;
}

static bool take_counted(struct sharinglines *l, struct sharing_line *line, struct reading *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sharing_use use = take(r);
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
            return take_run(l, line, r);
        }
        if (!sharinglines_end(l, t->number, line))
            return false;
    }
    use = take(r);
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
    if ((t->run && !take_run(l, line, r)) || !take_counted(l, line, r, t->counted))
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
        if (!take_counted(l, line, r, t->head_counted) || !take_run(l, line, r))
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
