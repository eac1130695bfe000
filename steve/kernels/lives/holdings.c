/* holdings.c - what the blocks of each stack come to over time; see holdings.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lives/holdings.h"

#include "memtrace/base/array.h"
#include "memtrace/sample.h"
#include "steve/kernels/base/batch_walk.h"

void holdings_init(struct holdings *h)
{
    memset(h, 0, sizeof *h);
}

void holdings_free(struct holdings *h)
{
    free(h->rows);
    keyed_rows_free(&h->of_stacks);
    free(h->blocks);
}

/* What a row holds is about to change, or the trace ends: if there was a peak since it last did, this was held then. */
static void note_peak(const struct holdings *h, struct holding *row)
{
    if (row->seen == h->peaks)
        return;
    row->seen = h->peaks;
    row->peak = row->held;
    row->peak_blocks = row->held_blocks;
}

/* A row holds another number of bytes than before, and so does the heap. */
static void change(struct holdings *h, struct holding *row, uint64_t before, uint64_t after)
{
    row->held += after - before;
    if (row->held > row->most) {
        row->most = row->held;
        row->most_blocks = row->held_blocks;
    }
    h->held += after - before;
    if (h->held > h->peak) {
        h->peak = h->held;
        h->peak_time = h->time;
        h->peaks++;
    }
}

static void block_free(struct holdings *h, struct holdings_block *b)
{
    struct holding *row = &h->rows[b->row - 1];

    note_peak(h, row);
    row->held_blocks -= b->blocks;
    row->lifetime += (h->time - b->born) * b->blocks;
    change(h, row, b->size, 0);
    b->row = 0;
}

static bool block_new(struct holdings *h, const struct mt_event *e)
{
    struct holdings_block *b;
    struct holding *row;
    size_t index;
    const double weight = mt_event_weight(e);
    const uint64_t bytes = mt_scaled(weight, e->size);

    if (!keyed_rows_reach(&h->of_stacks, e->ref, &h->rows, sizeof *h->rows, &index) ||
        !array_grow(&h->blocks, &h->blocks_room, (size_t)e->slot + 1, sizeof *h->blocks))
        return false;
    b = &h->blocks[e->slot];
    if (b->row)
        block_free(h, b);
    *b = (struct holdings_block){.size = e->container ? 0 : bytes,
                                 .blocks = mt_scaled(weight, 1),
                                 .born = h->time,
                                 .weight = weight,
                                 .row = (uint32_t)index + 1};
    row = &h->rows[index];
    note_peak(h, row);
    row->bytes += bytes;
    h->bytes += bytes;
    row->blocks += b->blocks;
    row->held_blocks += b->blocks;
    change(h, row, 0, b->size);
    return true;
}

static void block_resize(struct holdings *h, struct holdings_block *b, const struct mt_event *e)
{
    struct holding *row = &h->rows[b->row - 1];
    uint64_t before = b->size, bytes = mt_scaled(b->weight, e->size);

    note_peak(h, row);
    row->bytes += bytes;
    h->bytes += bytes;
    b->size = e->container ? 0 : bytes;
    change(h, row, before, b->size);
}

static struct holdings_block *block_at(struct holdings *h, uint32_t slot)
{
    return slot < h->blocks_room && h->blocks[slot].row ? &h->blocks[slot] : NULL;
}

/* A New, Free or Resize; false when out of memory. */
static bool event_feed(struct holdings *h, const struct mt_event *e)
{
    struct holdings_block *b = block_at(h, e->slot);

    h->time = e->time;
    if (e->kind == MT_NEW)
        return block_new(h, e);
    if (b && e->kind == MT_FREE)
        block_free(h, b);
    else if (b)
        block_resize(h, b, e);
    return true;
}

size_t holdings_feed_until(struct holdings *h, const struct mt_event *events, size_t n,
                           const struct holdings_until *until)
{
    size_t i;

    h->reached = false;
    for (i = 0; i < n && !h->reached; i++) {
        if (events[i].kind > MT_RESIZE)
            continue;
        if (!event_feed(h, &events[i]))
            return SIZE_MAX;
        h->reached = h->time >= until->time || h->bytes >= until->bytes || h->held >= until->held;
    }
    return i;
}

static void count_access(struct holdings *h, const struct holdings_block *b, uint8_t kind, uint64_t size)
{
    struct holding *row = &h->rows[b->row - 1];

    row->bytes_read += kind != MT_STORE ? mt_scaled(b->weight, size) : 0;
    row->bytes_written += kind != MT_LOAD ? mt_scaled(b->weight, size) : 0;
}

static bool take_any(struct holdings *h, const struct mt_event *e)
{
    const struct holdings_block *b;

    if (e->kind <= MT_RESIZE)
        return event_feed(h, e);
    b = e->kind <= MT_MODIFY && !e->freed ? block_at(h, e->slot) : NULL;
    if (b)
        count_access(h, b, e->kind, e->size);
    return true;
}

static bool take_events(struct holdings *h, const struct mt_batch *p, const struct mt_event *e, size_t n)
{
    (void)p;
    for (const struct mt_event *end = e + n; e < end; e++)
        if (!take_any(h, e))
            return false;
    return true;
}

/* A segment ran, its words in these places. */
static bool take_segment(struct holdings *h, const struct mt_batch *p, const struct mt_step *step,
                         const struct mt_place *places)
{
    const struct mt_segment_word *segment = &p->segments[step->segment];
    const struct mt_segment_access *a = &p->accesses[segment->first];

    for (const struct mt_segment_access *end = a + segment->count; a < end; a++) {
        const struct holdings_block *b = block_at(h, places[a->word].slot);

        if (b)
            count_access(h, b, a->kind, a->size);
    }
    return true;
}

BATCH_WALK(holdings, take_events, take_segment)

bool holdings_feed(struct holdings *h, const struct mt_batch *batch)
{
    return holdings_walk(h, batch);
}

void holdings_finish(struct holdings *h, uint64_t time)
{
    if (time > h->time)
        h->time = time;
    for (size_t i = 0; i < h->of_stacks.n; i++)
        note_peak(h, &h->rows[i]);
    for (size_t i = 0; i < h->blocks_room; i++)
        if (h->blocks[i].row)
            h->rows[h->blocks[i].row - 1].lifetime += (h->time - h->blocks[i].born) * h->blocks[i].blocks;
}
