/* sharing.c - memory that several threads access; see sharing.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/sharing.h"

#include "memtrace/grow.h"
#include "steve/kernels/sharingparts.h"
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
    free(s->runs);
    free(s->pieces);
}

static bool block_new(struct sharing *s, const struct mt_event *e)
{
    if (!grow(&s->blocks, &s->blocks_room, (size_t)e->slot + 1, sizeof *s->blocks) ||
        !grow(&s->rows, &s->rows_room, (size_t)e->ref + 1, sizeof *s->rows))
        return false;
    if (s->blocks[e->slot].live && !sharingparts_end(s, &s->blocks[e->slot])) /* its Free was lost */
        return false;
    s->blocks[e->slot] = (struct sharing_block){.size = e->size, .stack = e->ref, .live = true};
    s->rows[e->ref].blocks++;
    return true;
}

struct sharing_line *sharing_line_at(struct sharing *s, uint64_t number)
{
    uint32_t index = livemap_find(&s->map, number);

    if (index != LIVEMAP_NONE)
        return &s->lines[index];
    index = livemap_add(&s->map, number);
    if (index == LIVEMAP_NONE || !grow(&s->lines, &s->lines_room, (size_t)index + 1, sizeof *s->lines))
        return NULL;
    return &s->lines[index];
}

void sharing_take_line(struct sharing_line *line, struct sharing_row *row, uint16_t thread, uint64_t bytes,
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

/* One line of an access to a block that a stack made; false when out of memory. */
static bool touch_line(struct sharing *s, uint64_t number, uint32_t stack, const struct sharing_access *a)
{
    struct sharing_line *line = sharing_line_at(s, number);

    if (!line)
        return false;
    if (s->part)
        return sharingparts_touch(s, (uint32_t)(line - s->lines), number, stack, a);
    sharing_take_line(line, &s->rows[stack], a->thread, a->bytes, a->writes);
    return true;
}

static bool touch(struct sharing *s, uint32_t stack, const struct mt_event *e)
{
    uint64_t last = e->addr + e->size - 1;

    for (uint64_t number = e->addr / 64; number <= last / 64; number++) {
        struct sharing_access a = {
            bits(number == e->addr / 64 ? e->addr % 64 : 0, number == last / 64 ? last % 64 : 63), e->thread,
            e->kind != MT_LOAD};

        if (!touch_line(s, number, stack, &a))
            return false;
    }
    return true;
}

/* Another thread than before accesses a block. */
static void note_foreign(struct sharing_block *b, struct sharing_row *row)
{
    row->foreign++;
    if (b->shared)
        return;
    b->shared = true;
    b->shared_size = b->size;
    if (!b->earlier) {
        row->shared++;
        row->shared_bytes += b->size;
    }
}

static bool block_access(struct sharing *s, struct sharing_block *b, const struct mt_event *e)
{
    struct sharing_row *row = &s->rows[b->stack];

    row->accesses++;
    if (b->thread == 0) {
        b->first = e->thread;
        b->first_size = b->size;
    } else if (b->thread != e->thread) {
        note_foreign(b, row);
    }
    b->thread = e->thread;
    return e->size == 0 || touch(s, b->stack, e);
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
        return sharingparts_end(s, b);
    if (e->kind == MT_RESIZE)
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
