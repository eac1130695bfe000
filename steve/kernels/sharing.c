/* sharing.c - memory that several threads access; see sharing.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/sharing.h"

#include "steve/kernels/grow.h"
#include "steve/kernels/walk.h"

bool sharing_init(struct sharing *s)
{
    memset(s, 0, sizeof *s);
    return livemap_init(&s->map);
}

void sharing_free(struct sharing *s)
{
    livemap_free(&s->map);
    free(s->rows);
    free(s->blocks);
    free(s->lines);
}

static bool block_new(struct sharing *s, const struct mt_event *e)
{
    if (!grow(&s->blocks, &s->blocks_room, (size_t)e->slot + 1, sizeof *s->blocks) ||
        !grow(&s->rows, &s->rows_room, (size_t)e->ref + 1, sizeof *s->rows))
        return false;
    s->blocks[e->slot] = (struct sharing_block){.size = e->size, .stack = e->ref, .live = true};
    s->rows[e->ref].blocks++;
    return true;
}

/* The record of a line; NULL when out of memory. */
static struct sharing_line *line_at(struct sharing *s, uint64_t number)
{
    uint32_t index = livemap_find(&s->map, number);

    if (index != LIVEMAP_NONE)
        return &s->lines[index];
    index = livemap_add(&s->map, number);
    if (index == LIVEMAP_NONE || !grow(&s->lines, &s->lines_room, (size_t)index + 1, sizeof *s->lines))
        return NULL;
    return &s->lines[index];
}

static void take_line(struct sharing_line *line, struct sharing_row *row, uint16_t thread, uint64_t bytes,
                      bool writes)
{
    if (line->owner != thread) {
        bool moves = line->bytes && (line->written || writes);

        row->transfers += moves;
        row->false_transfers += moves && !(line->bytes & bytes);
        *line = (struct sharing_line){.owner = thread};
    }
    line->bytes |= bytes;
    line->written |= writes;
}

static uint64_t bits(unsigned first, unsigned last)
{
    return (last == 63 ? UINT64_MAX : ((uint64_t)1 << (last + 1)) - 1) & ~(((uint64_t)1 << first) - 1);
}

static bool touch(struct sharing *s, struct sharing_row *row, const struct mt_event *e)
{
    uint64_t last = e->addr + e->size - 1;

    for (uint64_t number = e->addr / 64; number <= last / 64; number++) {
        struct sharing_line *line = line_at(s, number);

        if (!line)
            return false;
        take_line(line, row, e->thread,
                  bits(number == e->addr / 64 ? e->addr % 64 : 0, number == last / 64 ? last % 64 : 63),
                  e->kind != MT_LOAD);
    }
    return true;
}

static bool block_access(struct sharing *s, struct sharing_block *b, const struct mt_event *e)
{
    struct sharing_row *row = &s->rows[b->stack];

    row->accesses++;
    if (b->thread != e->thread && b->thread != 0) {
        row->foreign++;
        row->shared += !b->shared;
        row->shared_bytes += b->shared ? 0 : b->size;
        b->shared = true;
    }
    b->thread = e->thread;
    return e->size == 0 || touch(s, row, e);
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
        b->live = false;
    else if (e->kind == MT_RESIZE)
        b->size = e->size;
    else
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
