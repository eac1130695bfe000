/* profile.c - gathers the report's numbers in one pass; profile.h says what they mean.
 *
 * The live sums of each tally at the moment of the peak are kept without copying all tallies at each new
 * peak: a peak only increments an epoch, and a tally saves its sums the first time it changes after a peak.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "steve/kernels/lives/profile.h"
#include "steve/kernels/base/batch_walk.h"
#include "steve/kernels/base/keyed_rows.h"

#include <stdlib.h>
#include <string.h>

/* Tallies of the stacks or heaps that have any, because all callers of a stack are stacks, too. */
struct tallies {
    struct profile_tally *rows;
    struct keyed_rows of_ids;
    struct profile_tally_variances *variances; /* of the first rows; of a trace that is no sample none */
    size_t variances_room;
    uint32_t known; /* ids below are defined */
};

/* One of them: its sums, and their variances, NULL if it has none. */
struct tally {
    struct profile_tally *sums;
    struct profile_tally_variances *variances;
};

struct profile {
    struct profile_totals totals;
    struct timeline timeline;
    struct tallies stacks, heaps;
    struct live_blocks blocks;
    uint64_t ended_at_peak; /* of struct profile_shard */
    uint64_t epoch;         /* number of times the peak was raised */
    uint64_t live_bytes, live_blocks;
    bool sampled; /* blocks have weights */
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

static void tallies_free(struct tallies *t)
{
    free(t->rows);
    free(t->variances);
    keyed_rows_free(&t->of_ids);
}

void profile_free(struct profile *p)
{
    if (!p)
        return;
    timeline_destroy(&p->timeline);
    tallies_free(&p->stacks);
    tallies_free(&p->heaps);
    live_blocks_free(&p->blocks);
    words_free(&p->words);
    free(p);
}

/* ---- tallies ------------------------------------------------------------------------------- */

/* Ids below `known` are defined. */
static void know_ids(struct tallies *t, uint32_t known)
{
    t->known = known > t->known ? known : t->known;
}

static uint32_t known_id(const struct tallies *t, uint32_t id)
{
    return id < t->known ? id : 0;
}

static struct tally tally_at(const struct tallies *t, size_t index)
{
    return (struct tally){&t->rows[index], index < t->variances_room ? &t->variances[index] : NULL};
}

/* The tally of an id, with variances if it is of a sample. Its sums are NULL when out of memory. It is valid until the
 * next call. */
static struct tally tally_reach(struct tallies *t, uint32_t id, bool sampled)
{
    size_t index;
    if (!keyed_rows_reach(&t->of_ids, id, &t->rows, sizeof *t->rows, &index) ||
        (sampled && !array_grow(&t->variances, &t->variances_room, index + 1, sizeof *t->variances)))
        return (struct tally){0};
    return tally_at(t, index);
}

/* That of an id that has one. */
static struct tally tally_found(const struct tallies *t, uint32_t id)
{
    return tally_at(t, keyed_rows_index(&t->of_ids, id));
}

/* A tally is about to change: if the peak rose since it last did, its sums were those of the peak. */
static struct tally changing(const struct profile *p, struct tally y)
{
    if (y.sums->epoch == p->epoch)
        return y;
    y.sums->peak_blocks = y.sums->live_blocks;
    y.sums->peak_bytes = y.sums->live_bytes;
    y.sums->epoch = p->epoch;
    if (y.variances) {
        y.variances->peak_blocks = y.variances->live_blocks;
        y.variances->peak_bytes = y.variances->live_bytes;
    }
    return y;
}

/* A New or Resize requested a size; the block is live here. */
static void tally_begin(struct tally y, const struct live_block *b)
{
    y.sums->bytes += b->size;
    y.sums->live_blocks += b->blocks;
    y.sums->live_bytes += live_block_held(b);
    if (y.variances) {
        y.variances->bytes += live_block_variance(b, b->requested - b->recorded, b->recorded);
        y.variances->live_blocks += mt_scaled_variance(b->blocks, 1);
        y.variances->live_bytes += live_block_held_variance(b);
    }
}

static void tally_end(struct tally y, const struct live_block *b)
{
    y.sums->live_blocks -= b->blocks;
    y.sums->live_bytes -= live_block_held(b);
    if (y.variances) {
        y.variances->live_blocks -= mt_scaled_variance(b->blocks, 1);
        y.variances->live_bytes -= live_block_held_variance(b);
    }
}

static void tally_new(struct tally y, const struct live_block *b)
{
    y.sums->blocks += b->blocks;
    if (y.variances)
        y.variances->blocks += mt_scaled_variance(b->blocks, 1);
}

static void tally_resize(struct tally y, const struct live_block *b)
{
    y.sums->resizes += b->blocks;
    if (y.variances)
        y.variances->resizes += live_block_variance(b, b->resizes - 1, 1);
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

/* The block `b` begins to be of its size. count: counts what made it so, for its stack and heap. False when out of
 * memory. */
static bool block_begin(struct profile *p, const struct live_block *b,
                        void (*count)(struct tally y, const struct live_block *b))
{
    const bool sampled = b->weight != 0;
    struct tally of[] = {tally_reach(&p->stacks, b->stack, sampled),
                         tally_reach(&p->heaps, b->heap, sampled)};

    if (!of[0].sums || !of[1].sums)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        tally_begin(changing(p, of[i]), b);
        count(of[i], b);
    }
    p->live_bytes += live_block_held(b);
    p->live_blocks += b->blocks;
    p->totals.allocated += b->size;
    return true;
}

/* It is not of that size any more. The stack of a block that was made before the shard is not known. */
static bool block_end(struct profile *p, const struct live_block *b)
{
    p->live_bytes -= live_block_held(b);
    p->live_blocks -= b->blocks;
    p->totals.freed += b->size;
    if (b->state == LIVE_BEFORE)
        return live_blocks_note_ended(&p->blocks, (uint32_t)(b - p->blocks.at));
    tally_end(changing(p, tally_found(&p->stacks, b->stack)), b);
    tally_end(changing(p, tally_found(&p->heaps, b->heap)), b);
    return true;
}

static bool on_new(struct profile *p, const struct mt_event *e)
{
    struct live_block *b = live_blocks_reach(&p->blocks, e->slot);
    if (!b || (b->state != LIVE_NONE && !block_end(p, b)))
        return false;
    *b = live_block_of(e);
    b->stack = known_id(&p->stacks, e->ref);
    b->heap = known_id(&p->heaps, e->heap);
    b->state = LIVE_HERE;
    if (!block_begin(p, b, tally_new))
        return false;
    p->sampled |= b->weight != 0;
    p->timeline.open.news += b->blocks;
    note_peak(p);
    return true;
}

static bool on_resize(struct profile *p, const struct mt_event *e, struct live_block *b)
{
    if (!block_end(p, b))
        return false;
    const uint32_t heap = b->heap;
    *b = live_block_resized(b, e);
    b->stack = known_id(&p->stacks, e->ref);
    b->heap = heap;
    b->state = LIVE_HERE;
    if (!block_begin(p, b, tally_resize))
        return false;
    note_peak(p);
    return true;
}

static bool on_free(struct profile *p, struct live_block *b)
{
    bool ok = block_end(p, b);
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

/* How often an event of the block in a slot counts. */
static uint64_t times_at(const struct profile *p, uint32_t slot)
{
    return p->sampled && slot < p->blocks.room ? mt_scaled(p->blocks.at[slot].weight, 1) : 1;
}

/* An access to the block in a slot: count it in the totals and in the open bin of the timeline. */
static void count_access(struct profile *p, unsigned kind, uint32_t slot)
{
    const uint64_t times = times_at(p, slot);

    p->totals.events[kind] += times;
    p->timeline.open.reads += kind != MT_STORE ? times : 0;
    p->timeline.open.writes += kind != MT_LOAD ? times : 0;
}

static bool event_feed(struct profile *p, const struct mt_event *e)
{
    if (e->kind > MT_MODIFY || e->kind <= MT_FREE)
        p->totals.events[e->kind] += mt_scaled(mt_event_weight(e), 1);
    else if (e->kind == MT_RESIZE)
        p->totals.events[MT_RESIZE] += times_at(p, e->slot);
    p->totals.time = e->time;
    if (e->kind > MT_MODIFY) {
        on_other(p, e);
        return true;
    }
    if (e->kind >= MT_LOAD)
        count_access(p, e->kind, e->slot);
    else if (!on_heap(p, e))
        return false;
    end_operation(p);
    return true;
}

static bool take_events(struct profile *p, const struct mt_batch *batch, const struct mt_event *events,
                        size_t n)
{
    (void)batch;
    for (size_t i = 0; i < n; i++)
        if (events[i].kind < MT_KINDS && !event_feed(p, &events[i]))
            return false;
    return true;
}

/* A segment ran, of which a bin of the timeline ends within, or some words lay in no block, or blocks have weights. */
static void take_accesses(struct profile *p, const struct mt_batch *batch, const struct mt_step *step,
                          const struct mt_place *places)
{
    const struct mt_segment_word *segment = &batch->segments[step->segment];
    const struct mt_segment_access *a = &batch->accesses[segment->first];

    for (const struct mt_segment_access *last = a + segment->count; a < last; a++) {
        if (places[a->word].slot == MT_NO_SLOT)
            continue;
        count_access(p, a->kind, places[a->word].slot);
        end_operation(p);
    }
}

static bool take_segment(struct profile *p, const struct mt_batch *batch, const struct mt_step *step,
                         const struct mt_place *places)
{
    const uint64_t *counts = p->words.sums[step->segment].all.counts;

    p->totals.time = step->time;
    if (p->sampled || step->count != batch->segments[step->segment].count ||
        p->totals.operations + step->count >= p->timeline.next) {
        take_accesses(p, batch, step, places);
        return true;
    }
    for (unsigned kind = 0; kind < 3; kind++)
        p->totals.events[MT_LOAD + kind] += counts[kind];
    p->timeline.open.reads += counts[0] + counts[MT_MODIFY - MT_LOAD];
    p->timeline.open.writes += counts[MT_STORE - MT_LOAD] + counts[MT_MODIFY - MT_LOAD];
    p->totals.operations += step->count;
    return true;
}

BATCH_WALK(profile, take_events, take_segment)

bool profile_feed(struct profile *p, const struct mt_batch *batch, uint32_t stacks, uint32_t heaps)
{
    know_ids(&p->stacks, stacks);
    know_ids(&p->heaps, heaps);
    return words_learn(&p->words, batch) && profile_walk(p, batch);
}

/* ---- lives --------------------------------------------------------------------------------- */

static unsigned log2_of(uint64_t value)
{
    return 63 - (unsigned)__builtin_clzll(value | 1);
}

/* Add a life to the tally of an id. False when out of memory. */
static bool add_life(struct tallies *t, uint32_t id, const struct life *life)
{
    const bool sampled = life->weight != 0;
    struct tally y = tally_reach(t, known_id(t, id), sampled);

    if (!y.sums)
        return false;
    profile_tally_add(y.sums, life);
    if (sampled)
        profile_tally_vary(y.variances, life);
    return true;
}

bool profile_add_lives(struct profile *p, const struct life *lives, size_t n)
{
    for (const struct life *life = lives; life < lives + n; life++) {
        unsigned size = log2_of(life->size);
        unsigned lifetime = life->freed ? log2_of(life->died - life->born) : PROFILE_FOREVER;

        p->map_blocks[size][lifetime] += life_scaled(life, 1);
        p->map_bytes[size][lifetime] += life_scaled(life, life->size);
        if (!add_life(&p->stacks, life->last_stack, life) || !add_life(&p->heaps, life->heap, life))
            return false;
    }
    return true;
}

static void settle(const struct profile *p, struct tallies *t)
{
    for (size_t i = 0; i < t->of_ids.n; i++)
        changing(p, tally_at(t, i));
}

void profile_finish(struct profile *p)
{
    struct timeline_now moment = now(p);

    settle(p, &p->stacks);
    settle(p, &p->heaps);
    for (size_t i = 0; i < p->heaps.of_ids.n; i++) {
        p->totals.bytes_read += p->heaps.rows[i].bytes_read;
        p->totals.bytes_written += p->heaps.rows[i].bytes_written;
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
    p->live_bytes += live->container ? 0 : live->size;
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
        tally_end(tally_found(&p->stacks, b->stack), b);
        tally_end(tally_found(&p->heaps, b->heap), b);
        b->state = LIVE_NONE;
    }
}

/* Have tallies for those of a shard. False when out of memory. */
static bool reach_all(struct tallies *t, const struct profile_rows *shard)
{
    know_ids(t, shard->known);
    for (size_t i = 0; i < shard->n; i++)
        if (!tally_reach(t, shard->ids[i], false).sums)
            return false;
    return true;
}

static void merge_peak(struct tallies *t, const struct profile_rows *shard)
{
    for (size_t i = 0; i < t->of_ids.n; i++) {
        t->rows[i].peak_blocks = t->rows[i].live_blocks;
        t->rows[i].peak_bytes = t->rows[i].live_bytes;
    }
    for (size_t i = 0; i < shard->n; i++) {
        struct profile_tally *y = tally_found(t, shard->ids[i]).sums;

        y->peak_blocks += shard->rows[i].peak_blocks;
        y->peak_bytes += shard->rows[i].peak_bytes;
    }
}

/* All but the peak. */
static void merge_tallies(struct tallies *t, const struct profile_rows *shard)
{
    for (size_t i = 0; i < shard->n; i++)
        profile_tally_merge(tally_found(t, shard->ids[i]).sums, &shard->rows[i]);
}

static void merge_timeline(struct profile *p, const struct profile_partial *shard)
{
    p->timeline.width = shard->shard->width;
    for (size_t i = 0; i < shard->n_bins; i++) {
        struct timeline_bin bin = shard->bins[i];

        bin.allocated_end += p->totals.allocated;
        timeline_append(&p->timeline, &bin);
    }
}

static void merge_marks(struct profile *p, const struct profile_partial *shard)
{
    const uint64_t before = p->totals.marks;

    for (uint64_t i = 0; i < shard->shard->totals.marks && before + i < PROFILE_MARKS; i++)
        p->marks[before + i] = shard->marks[i];
}

static void merge_totals(struct profile *p, const struct profile_totals *shard, bool is_peak)
{
    struct profile_totals *t = &p->totals;

    if (is_peak) {
        t->peak_bytes = shard->peak_bytes;
        t->peak_blocks = shard->peak_blocks;
        t->peak_operation = shard->peak_operation;
        t->peak_time = shard->peak_time;
        t->peak_allocated = t->allocated + shard->peak_allocated;
    }
    profile_totals_merge(t, shard);
    p->live_bytes = shard->live_bytes;
    p->live_blocks = shard->live_blocks;
}

static void merge_map(uint64_t *map, const uint64_t *shard)
{
    for (size_t i = 0; i < PROFILE_SIZES * PROFILE_LIFETIMES; i++)
        map[i] += shard[i];
}

bool profile_merge(struct profile *whole, const struct profile_partial *partial)
{
    const struct profile_shard *shard = partial->shard;
    bool is_peak = shard->risen && shard->totals.peak_bytes > whole->totals.peak_bytes;
    size_t before_peak = is_peak ? shard->ended_at_peak : 0;

    if (!reach_all(&whole->stacks, &partial->stacks) || !reach_all(&whole->heaps, &partial->heaps))
        return false;
    forget(whole, partial->ended, before_peak);
    if (is_peak) {
        merge_peak(&whole->stacks, &partial->stacks);
        merge_peak(&whole->heaps, &partial->heaps);
    }
    forget(whole, partial->ended + before_peak, partial->n_ended - before_peak);
    merge_tallies(&whole->stacks, &partial->stacks);
    merge_tallies(&whole->heaps, &partial->heaps);
    merge_timeline(whole, partial);
    merge_marks(whole, partial);
    merge_totals(whole, &shard->totals, is_peak);
    merge_map(&whole->map_blocks[0][0], partial->map_blocks);
    merge_map(&whole->map_bytes[0][0], partial->map_bytes);
    return live_blocks_merge(&whole->blocks, partial->list, partial->n_list);
}

bool profile_fits(const struct profile *p)
{
    const struct timeline *t = &p->timeline;
    const uint64_t end = t->used ? t->bins[t->used - 1].operations_end : 0;

    return t->width == timeline_width(t, p->totals.operations) && end == p->totals.operations;
}

/* ---- results ------------------------------------------------------------------------------- */

const struct profile_totals *profile_totals(const struct profile *p)
{
    return &p->totals;
}

static struct profile_rows rows_of(const struct tallies *t)
{
    size_t n = t->of_ids.n, varied = t->variances_room < n ? t->variances_room : n;

    return (struct profile_rows){t->of_ids.keys, t->rows, n, t->known, t->variances, varied};
}

struct profile_rows profile_stacks(const struct profile *p)
{
    return rows_of(&p->stacks);
}

struct profile_rows profile_heaps(const struct profile *p)
{
    return rows_of(&p->heaps);
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
