/* sharing.c - memory that several threads access; see sharing.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/accesses/sharing.h"

#include "memtrace/base/array.h"
#include "steve/kernels/accesses/sharing_shards.h"
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

static bool block_new(struct sharing *s, const struct mt_event *e)
{
    if (!array_grow(&s->blocks, &s->blocks_room, (size_t)e->slot + 1, sizeof *s->blocks) ||
        !array_grow(&s->rows, &s->rows_room, (size_t)e->ref + 1, sizeof *s->rows))
        return false;
    if (s->blocks[e->slot].live && !sharing_shard_end(s, &s->blocks[e->slot])) /* its Free was lost */
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
        return sharing_shard_end(s, b);
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
