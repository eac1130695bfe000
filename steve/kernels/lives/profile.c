/* profile.c - gathers the report's numbers in one pass; profile.h says what they mean.
 *
 * The live sums of each tally at the moment of the peak are kept without copying all tallies at each new
 * peak: a peak only increments an epoch, and a tally saves its sums the first time it changes after a peak.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "steve/kernels/lives/profile.h"

#include <stdlib.h>
#include <string.h>

struct tallies {
    struct profile_tally *at;
    size_t used, capacity;
};

struct profile {
    struct profile_totals totals;
    struct timeline timeline;
    struct tallies stacks, heaps;
    struct live_blocks blocks;
    uint64_t ended_at_peak; /* of struct profile_shard */
    uint64_t epoch;         /* number of times the peak was raised */
    uint64_t live_bytes, live_blocks;
    uint64_t map_blocks[PROFILE_SIZES][PROFILE_LIFETIMES];
    uint64_t map_bytes[PROFILE_SIZES][PROFILE_LIFETIMES];
    struct profile_mark marks[PROFILE_MARKS];
    struct words words;
};

struct profile *profile_new(uint32_t bins)
{
    struct profile *p = calloc(1, sizeof *p);
    if (p && !timeline_init(&p->timeline, bins)) {
        free(p);
        p = NULL;
    }
    return p;
}

void profile_free(struct profile *p)
{
    if (!p)
        return;
    timeline_destroy(&p->timeline);
    free(p->stacks.at);
    free(p->heaps.at);
    live_blocks_free(&p->blocks);
    words_free(&p->words);
    free(p);
}

/* ---- room ---------------------------------------------------------------------------------- */

/* Grow an array of `size`-byte elements to hold index `want`; new ones are zero. */
static bool make_room(void **array, size_t *capacity, size_t size, size_t want)
{
    if (want < *capacity)
        return true;
    size_t more = *capacity ? *capacity : 64;
    while (more <= want)
        more *= 2;
    char *grown = realloc(*array, more * size);
    if (!grown)
        return false;
    memset(grown + *capacity * size, 0, (more - *capacity) * size);
    *array = grown;
    *capacity = more;
    return true;
}

/* Room for ids below `known`, and always for id 0. */
static bool room_for_tallies(struct tallies *t, uint32_t known)
{
    if (known > t->used || t->used == 0)
        t->used = known ? known : 1;
    return make_room((void **)&t->at, &t->capacity, sizeof *t->at, t->used - 1);
}

static uint32_t known_id(const struct tallies *t, uint32_t id)
{
    return id < t->used ? id : 0;
}

/* ---- tallies ------------------------------------------------------------------------------- */

/* A tally is about to change: if the peak rose since it last did, its sums were those of the peak. */
static struct profile_tally *changing(struct profile *p, struct tallies *t, uint32_t id)
{
    struct profile_tally *y = &t->at[id];
    if (y->epoch != p->epoch) {
        y->peak_blocks = y->live_blocks;
        y->peak_bytes = y->live_bytes;
        y->epoch = p->epoch;
    }
    return y;
}

/* A New or Resize requested a size; the block is live here. */
static void tally_begin(struct profile_tally *y, const struct live_block *b)
{
    y->bytes += b->size;
    y->live_blocks += b->blocks;
    y->live_bytes += b->size;
}

static void tally_end(struct profile_tally *y, const struct live_block *b)
{
    y->live_blocks -= b->blocks;
    y->live_bytes -= b->size;
}

/* ---- heap events --------------------------------------------------------------------------- */

static void note_peak(struct profile *p)
{
    struct profile_totals *t = &p->totals;
    timeline_grew(&p->timeline, p->live_bytes, p->live_blocks);
    if (p->live_blocks > t->most_blocks)
        t->most_blocks = p->live_blocks;
    if (p->live_bytes <= t->peak_bytes)
        return;
    p->epoch++;
    p->ended_at_peak = p->blocks.n_ended;
    t->peak_bytes = p->live_bytes;
    t->peak_blocks = p->live_blocks;
    t->peak_operation = t->operations;
    t->peak_time = t->time;
    t->peak_allocated = t->allocated;
}

/* The block `b` begins to be of its size. */
static void begin(struct profile *p, const struct live_block *b)
{
    tally_begin(changing(p, &p->stacks, b->stack), b);
    tally_begin(changing(p, &p->heaps, b->heap), b);
    p->live_bytes += b->size;
    p->live_blocks += b->blocks;
    p->totals.allocated += b->size;
}

/* It is not of that size any more. The stack of a block that was made before the shard is not known. */
static bool end(struct profile *p, const struct live_block *b)
{
    p->live_bytes -= b->size;
    p->live_blocks -= b->blocks;
    p->totals.freed += b->size;
    if (b->state == LIVE_BEFORE)
        return live_blocks_note_ended(&p->blocks, (uint32_t)(b - p->blocks.at));
    tally_end(changing(p, &p->stacks, b->stack), b);
    tally_end(changing(p, &p->heaps, b->heap), b);
    return true;
}

static bool on_new(struct profile *p, const struct mt_event *e)
{
    struct live_block *b = live_blocks_reach(&p->blocks, e->slot);
    if (!b || (b->state != LIVE_NONE && !end(p, b)))
        return false;
    *b = live_block_of(e);
    b->stack = known_id(&p->stacks, e->ref);
    b->heap = known_id(&p->heaps, e->heap);
    b->state = LIVE_HERE;
    begin(p, b);
    p->stacks.at[b->stack].blocks += b->blocks;
    p->heaps.at[b->heap].blocks += b->blocks;
    p->timeline.open.news += b->blocks;
    note_peak(p);
    return true;
}

static bool on_resize(struct profile *p, const struct mt_event *e, struct live_block *b)
{
    if (!end(p, b))
        return false;
    const uint32_t heap = b->heap;
    *b = live_block_of(e);
    b->stack = known_id(&p->stacks, e->ref);
    b->heap = heap;
    b->state = LIVE_HERE;
    begin(p, b);
    p->stacks.at[b->stack].resizes++;
    p->heaps.at[b->heap].resizes++;
    note_peak(p);
    return true;
}

static bool on_free(struct profile *p, struct live_block *b)
{
    bool ok = end(p, b);
    p->timeline.open.frees += b->blocks;
    b->state = LIVE_NONE;
    return ok;
}

/* ---- the pass ------------------------------------------------------------------------------ */

/* Events that are not operations. */
static void on_other(struct profile *p, const struct mt_event *e)
{
    struct profile_totals *t = &p->totals;
    if (e->kind == MT_LOST)
        t->lost += e->size;
    if (e->kind != MT_MARK)
        return;
    if (t->marks < PROFILE_MARKS)
        p->marks[t->marks] = (struct profile_mark){t->operations, t->time, e->ref};
    t->marks++;
}

static struct timeline_now now(const struct profile *p)
{
    return (struct timeline_now){p->totals.operations, p->totals.time, p->totals.allocated, p->live_bytes,
                                 p->live_blocks};
}

static void end_operation(struct profile *p)
{
    if (++p->totals.operations == p->timeline.next) {
        struct timeline_now moment = now(p);
        timeline_turn(&p->timeline, &moment);
    }
}

static bool on_heap(struct profile *p, const struct mt_event *e)
{
    struct live_block *b = e->slot < p->blocks.room ? &p->blocks.at[e->slot] : NULL;
    if (e->kind == MT_NEW)
        return on_new(p, e);
    if (!b || b->state == LIVE_NONE)
        return true;
    return e->kind == MT_FREE ? on_free(p, b) : on_resize(p, e, b);
}

/* In the open bin of the timeline. */
static void count_access(struct profile *p, unsigned kind)
{
    p->timeline.open.reads += kind != MT_STORE;
    p->timeline.open.writes += kind != MT_LOAD;
}

static bool take(struct profile *p, const struct mt_event *e)
{
    p->totals.events[e->kind] += mt_scaled(mt_event_weight(e), 1);
    p->totals.time = e->time;
    if (e->kind > MT_MODIFY) {
        on_other(p, e);
        return true;
    }
    if (e->kind >= MT_LOAD)
        count_access(p, e->kind);
    else if (!on_heap(p, e))
        return false;
    end_operation(p);
    return true;
}

bool profile_feed(struct profile *p, const struct mt_event *events, size_t n, uint32_t stacks, uint32_t heaps)
{
    if (!room_for_tallies(&p->stacks, stacks) || !room_for_tallies(&p->heaps, heaps))
        return false;
    for (size_t i = 0; i < n; i++)
        if (events[i].kind < MT_KINDS && !take(p, &events[i]))
            return false;
    return true;
}

/* A segment ran, of which a bin of the timeline ends within, or some words lay in no block. */
static void take_accesses(struct profile *p, const struct mt_batch *batch, const struct mt_step *step,
                          const struct mt_place *places)
{
    const struct mt_segment_word *segment = &batch->segments[step->segment];
    const struct mt_segment_access *a = &batch->accesses[segment->first];

    for (const struct mt_segment_access *last = a + segment->count; a < last; a++) {
        if (places[a->word].slot == MT_NO_SLOT)
            continue;
        p->totals.events[a->kind]++;
        count_access(p, a->kind);
        end_operation(p);
    }
}

static void take_segment(struct profile *p, const struct mt_batch *batch, const struct mt_step *step,
                         const struct mt_place *places)
{
    const uint64_t *counts = p->words.sums[step->segment].all.counts;

    p->totals.time = step->time;
    if (step->count != batch->segments[step->segment].count ||
        p->totals.operations + step->count >= p->timeline.next) {
        take_accesses(p, batch, step, places);
        return;
    }
    for (unsigned kind = 0; kind < 3; kind++)
        p->totals.events[MT_LOAD + kind] += counts[kind];
    p->timeline.open.reads += counts[0] + counts[MT_MODIFY - MT_LOAD];
    p->timeline.open.writes += counts[MT_STORE - MT_LOAD] + counts[MT_MODIFY - MT_LOAD];
    p->totals.operations += step->count;
}

bool profile_feed_batch(struct profile *p, const struct mt_batch *batch, uint32_t stacks, uint32_t heaps)
{
    const struct mt_place *places = batch->places;
    const struct mt_event *events = batch->events;

    if (!words_learn(&p->words, batch))
        return false;
    for (const struct mt_step *step = batch->steps; step < batch->steps + batch->n_steps; step++) {
        if (step->segment != MT_STEP_EVENTS) {
            take_segment(p, batch, step, places);
            places += batch->segments[step->segment].words;
        } else if (profile_feed(p, events, step->count, stacks, heaps)) {
            events += step->count;
        } else {
            return false;
        }
    }
    return true;
}

/* ---- lives --------------------------------------------------------------------------------- */

static void tally_life(struct profile_tally *y, const struct life *life)
{
    bool unread = !life->inherited && !(life->loads | life->modifies);
    bool unwritten = !life->inherited && !(life->stores | life->modifies);

    const uint64_t blocks = life_scaled(life, 1), bytes = life_scaled(life, life->size);

    y->frees += life->freed ? blocks : 0;
    y->lifetimes += life->freed ? (life->died - life->born) * blocks : 0;
    y->reads += life->loads + life->modifies;
    y->writes += life->stores + life->modifies;
    y->bytes_read += life->bytes_read;
    y->bytes_written += life->bytes_written;
    y->unread_blocks += unread ? blocks : 0;
    y->unread_bytes += unread ? bytes : 0;
    y->unwritten_blocks += unwritten ? blocks : 0;
    y->unwritten_bytes += unwritten ? bytes : 0;
}

static unsigned log2_of(uint64_t value)
{
    return 63 - (unsigned)__builtin_clzll(value | 1);
}

void profile_add_lives(struct profile *p, const struct life *lives, size_t n)
{
    for (const struct life *life = lives; life < lives + n; life++) {
        unsigned size = log2_of(life->size);
        unsigned lifetime = life->freed ? log2_of(life->died - life->born) : PROFILE_FOREVER;

        p->map_blocks[size][lifetime] += life_scaled(life, 1);
        p->map_bytes[size][lifetime] += life_scaled(life, life->size);
        tally_life(&p->stacks.at[known_id(&p->stacks, life->last_stack)], life);
        tally_life(&p->heaps.at[known_id(&p->heaps, life->heap)], life);
    }
}

static void settle(struct profile *p, struct tallies *t)
{
    for (size_t i = 0; i < t->used; i++)
        changing(p, t, (uint32_t)i);
}

void profile_finish(struct profile *p)
{
    struct timeline_now moment = now(p);

    settle(p, &p->stacks);
    settle(p, &p->heaps);
    for (size_t i = 0; i < p->heaps.used; i++) {
        p->totals.bytes_read += p->heaps.at[i].bytes_read;
        p->totals.bytes_written += p->heaps.at[i].bytes_written;
    }
    p->totals.live_bytes = p->live_bytes;
    p->totals.live_blocks = p->live_blocks;
    timeline_finish(&p->timeline, &moment);
}

/* ---- shards -------------------------------------------------------------------------------- */

void profile_begin_shard(struct profile *p, uint64_t operations, uint64_t total)
{
    p->totals.operations = operations;
    timeline_begin(&p->timeline, operations, total);
}

bool profile_enter(struct profile *p, const struct mt_live_block *live)
{
    if (!live_blocks_enter(&p->blocks, live))
        return false;
    p->live_bytes += live->size;
    p->live_blocks++;
    p->totals.peak_bytes = p->live_bytes;
    p->totals.most_blocks = p->live_blocks;
    timeline_grew(&p->timeline, p->live_bytes, p->live_blocks);
    return true;
}

bool profile_finish_shard(struct profile *p, struct profile_shard *shard)
{
    struct timeline_now moment = now(p);

    settle(p, &p->stacks);
    settle(p, &p->heaps);
    timeline_finish(&p->timeline, &moment);
    p->totals.live_bytes = p->live_bytes;
    p->totals.live_blocks = p->live_blocks;
    *shard = (struct profile_shard){p->totals, p->timeline.width, p->epoch > 0, p->ended_at_peak};
    return live_blocks_list(&p->blocks);
}

/* Blocks of earlier shards ended: they no longer live at their stacks and heaps. */
static void forget(struct profile *p, const uint32_t *ended, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct live_block *b = live_blocks_found(&p->blocks, ended[i]);

        if (!b)
            continue;
        tally_end(&p->stacks.at[b->stack], b);
        tally_end(&p->heaps.at[b->heap], b);
        b->state = LIVE_NONE;
    }
}

static void join_peak(struct tallies *t, const struct profile_rows *shard)
{
    for (size_t i = 0; i < t->used; i++) {
        t->at[i].peak_blocks = t->at[i].live_blocks;
        t->at[i].peak_bytes = t->at[i].live_bytes;
    }
    for (size_t i = 0; i < shard->n; i++) {
        t->at[shard->ids[i]].peak_blocks += shard->rows[i].peak_blocks;
        t->at[shard->ids[i]].peak_bytes += shard->rows[i].peak_bytes;
    }
}

/* All but the peak. */
static void join_tallies(struct tallies *t, const struct profile_rows *shard)
{
    for (size_t i = 0; i < shard->n; i++) {
        struct profile_tally *y = &t->at[shard->ids[i]];
        const struct profile_tally *more = &shard->rows[i];

        y->blocks += more->blocks;
        y->resizes += more->resizes;
        y->bytes += more->bytes;
        y->frees += more->frees;
        y->live_blocks += more->live_blocks;
        y->live_bytes += more->live_bytes;
        y->reads += more->reads;
        y->writes += more->writes;
        y->bytes_read += more->bytes_read;
        y->bytes_written += more->bytes_written;
        y->unread_blocks += more->unread_blocks;
        y->unread_bytes += more->unread_bytes;
        y->unwritten_blocks += more->unwritten_blocks;
        y->unwritten_bytes += more->unwritten_bytes;
        y->lifetimes += more->lifetimes;
    }
}

static void join_timeline(struct profile *p, const struct profile_partial *shard)
{
    p->timeline.width = shard->shard->width;
    for (size_t i = 0; i < shard->n_bins; i++) {
        struct timeline_bin bin = shard->bins[i];

        bin.allocated_end += p->totals.allocated;
        timeline_append(&p->timeline, &bin);
    }
}

static void join_marks(struct profile *p, const struct profile_partial *shard)
{
    for (uint64_t i = 0; i < shard->shard->totals.marks; i++, p->totals.marks++)
        if (p->totals.marks < PROFILE_MARKS)
            p->marks[p->totals.marks] = shard->marks[i];
}

static void join_totals(struct profile *p, const struct profile_totals *shard, bool is_peak)
{
    struct profile_totals *t = &p->totals;

    if (is_peak) {
        t->peak_bytes = shard->peak_bytes;
        t->peak_blocks = shard->peak_blocks;
        t->peak_operation = shard->peak_operation;
        t->peak_time = shard->peak_time;
        t->peak_allocated = t->allocated + shard->peak_allocated;
    }
    for (unsigned kind = 0; kind < MT_KINDS; kind++)
        t->events[kind] += shard->events[kind];
    t->most_blocks = shard->most_blocks > t->most_blocks ? shard->most_blocks : t->most_blocks;
    t->time = shard->time > t->time ? shard->time : t->time;
    t->operations = shard->operations;
    t->allocated += shard->allocated;
    t->freed += shard->freed;
    t->lost += shard->lost;
    p->live_bytes = shard->live_bytes;
    p->live_blocks = shard->live_blocks;
}

static void join_map(uint64_t *map, const uint64_t *shard)
{
    for (size_t i = 0; i < PROFILE_SIZES * PROFILE_LIFETIMES; i++)
        map[i] += shard[i];
}

bool profile_join(struct profile *whole, const struct profile_partial *partial)
{
    const struct profile_shard *shard = partial->shard;
    bool is_peak = shard->risen && shard->totals.peak_bytes > whole->totals.peak_bytes;
    size_t before_peak = is_peak ? shard->ended_at_peak : 0;

    if (!room_for_tallies(&whole->stacks, partial->stacks.known) ||
        !room_for_tallies(&whole->heaps, partial->heaps.known))
        return false;
    forget(whole, partial->ended, before_peak);
    if (is_peak) {
        join_peak(&whole->stacks, &partial->stacks);
        join_peak(&whole->heaps, &partial->heaps);
    }
    forget(whole, partial->ended + before_peak, partial->n_ended - before_peak);
    join_tallies(&whole->stacks, &partial->stacks);
    join_tallies(&whole->heaps, &partial->heaps);
    join_timeline(whole, partial);
    join_marks(whole, partial);
    join_totals(whole, &shard->totals, is_peak);
    join_map(&whole->map_blocks[0][0], partial->map_blocks);
    join_map(&whole->map_bytes[0][0], partial->map_bytes);
    return live_blocks_join(&whole->blocks, partial->list, partial->n_list);
}

bool profile_fits(const struct profile *p)
{
    return p->timeline.width == timeline_width(&p->timeline, p->totals.operations);
}

/* ---- results ------------------------------------------------------------------------------- */

const struct profile_totals *profile_totals(const struct profile *p)
{
    return &p->totals;
}

const struct profile_tally *profile_stacks(const struct profile *p, size_t *n)
{
    *n = p->stacks.used;
    return p->stacks.at;
}

const struct profile_tally *profile_heaps(const struct profile *p, size_t *n)
{
    *n = p->heaps.used;
    return p->heaps.at;
}

const struct timeline_bin *profile_timeline(const struct profile *p, size_t *n)
{
    *n = p->timeline.used;
    return p->timeline.bins;
}

const struct profile_mark *profile_marks(const struct profile *p, size_t *n)
{
    *n = p->totals.marks < PROFILE_MARKS ? p->totals.marks : PROFILE_MARKS;
    return p->marks;
}

const uint64_t *profile_map_blocks(const struct profile *p)
{
    return &p->map_blocks[0][0];
}

const uint64_t *profile_map_bytes(const struct profile *p)
{
    return &p->map_bytes[0][0];
}

const struct live_blocks *profile_blocks(const struct profile *p)
{
    return &p->blocks;
}
