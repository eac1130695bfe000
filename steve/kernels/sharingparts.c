/* sharingparts.c - memory that several threads access in parts of a trace; see sharingparts.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/sharingparts.h"

#include "memtrace/grow.h"

/* Have the row of a stack. */
static bool reach(struct sharing *s, uint32_t stack)
{
    return grow(&s->rows, &s->rows_room, (size_t)stack + 1, sizeof *s->rows);
}

/* ---- a part -------------------------------------------------------------------------------- */

bool sharingparts_enter(struct sharing *s, const struct mt_live_block *live, uint32_t stack)
{
    if (!grow(&s->blocks, &s->blocks_room, (size_t)live->slot + 1, sizeof *s->blocks) || !reach(s, stack))
        return false;
    s->blocks[live->slot] =
        (struct sharing_block){.size = live->size, .stack = stack, .live = true, .earlier = true};
    return true;
}

bool sharingparts_touch(struct sharing *s, uint32_t index, uint64_t number, uint32_t stack,
                        const struct sharing_access *a)
{
    struct sharing_line *line = &s->lines[index];
    struct sharing_run *run;

    if (!grow(&s->runs, &s->runs_room, (size_t)index + 1, sizeof *s->runs))
        return false;
    run = &s->runs[index];
    if (!line->bytes) {
        *run = (struct sharing_run){.number = number, .first = *a, .first_stack = stack};
    } else if (!run->ended && line->owner != a->thread) {
        run->run = *line;
        run->next = *a;
        run->next_stack = stack;
        run->ended = true;
        *line = (struct sharing_line){0}; /* whether it moves, the whole counts */
    }
    sharing_take_line(line, &s->rows[stack], a->thread, a->bytes, a->writes);
    return true;
}

static bool tell(struct sharing *s, const struct sharing_block *b, bool freed)
{
    if (!grow(&s->pieces, &s->pieces_room, s->n_pieces + 1, sizeof *s->pieces))
        return false;
    s->pieces[s->n_pieces++] =
        (struct sharing_piece){.block = *b, .slot = (uint32_t)(b - s->blocks), .freed = freed};
    return true;
}

bool sharingparts_end(struct sharing *s, struct sharing_block *b)
{
    b->live = false;
    return !b->earlier || tell(s, b, true);
}

static bool finish_blocks(struct sharing *s)
{
    for (size_t i = 0; i < s->blocks_room; i++)
        if (s->blocks[i].live && !tell(s, &s->blocks[i], false))
            return false;
    return true;
}

bool sharingparts_finish(struct sharing *s)
{
    for (size_t i = 0; i < s->map.live; i++) {
        s->runs[i].left = s->lines[i];
        if (!s->runs[i].ended)
            s->runs[i].run = s->lines[i];
    }
    return finish_blocks(s);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void take(struct sharing *whole, struct sharing_line *line, const struct sharing_access *a,
                 uint32_t stack)
{
    sharing_take_line(line, &whole->rows[stack], a->thread, a->bytes, a->writes);
}

static bool add_run(struct sharing *whole, const struct sharing_run *r)
{
    struct sharing_line *line = sharing_line_at(whole, r->number);

    if (!line || !reach(whole, r->first_stack) || !reach(whole, r->next_stack))
        return false;
    take(whole, line, &r->first, r->first_stack);
    line->bytes |= r->run.bytes;
    line->written |= r->run.written;
    if (r->ended) {
        take(whole, line, &r->next, r->next_stack);
        *line = r->left;
    }
    return true;
}

bool sharingparts_add_runs(struct sharing *whole, const struct sharing_run *runs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!add_run(whole, &runs[i]))
            return false;
    return true;
}

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
    if (b->thread != 0 && b->thread != piece->first) {
        row->foreign++;
        share(row, b, piece->first_size);
    }
    if (piece->shared)
        share(row, b, piece->shared_size);
    b->thread = piece->thread;
}

bool sharingparts_add_pieces(struct sharing *whole, const struct sharing_piece *pieces, size_t n)
{
    for (const struct sharing_piece *p = pieces; p < pieces + n; p++) {
        struct sharing_block *b;

        if (!grow(&whole->blocks, &whole->blocks_room, (size_t)p->slot + 1, sizeof *whole->blocks) ||
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
