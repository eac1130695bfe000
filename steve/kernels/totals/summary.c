/* summary.c - totals of a trace; see summary.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/totals/summary.h"

#include "steve/kernels/base/batch_walk.h"
#include "steve/kernels/base/bits.h"

void summary_init(struct summary *s)
{
    memset(s, 0, sizeof *s);
}

void summary_free(struct summary *s)
{
    live_blocks_free(&s->blocks);
    free(s->stacks);
    keyed_rows_free(&s->of_stacks);
    free(s->uses);
    words_free(&s->words);
}

static uint32_t known_stack(const struct summary *s, uint32_t stack)
{
    return stack < s->known ? stack : 0;
}

/* The row of a stack; NULL when out of memory. */
static struct summary_stack *stack_row(struct summary *s, uint32_t stack)
{
    size_t index;

    return keyed_rows_reach(&s->of_stacks, stack, &s->stacks, sizeof *s->stacks, &index) ? &s->stacks[index]
                                                                                         : NULL;
}

/* A row is about to change: if the peak rose since it last did, its bytes were those of the peak. */
static void changing(const struct summary *s, struct summary_stack *row)
{
    if (row->epoch == s->epoch)
        return;
    row->peak_bytes = row->live_bytes;
    row->epoch = s->epoch;
}

bool summary_enter(struct summary *s, const struct mt_live_block *live)
{
    return live_blocks_enter(&s->blocks, live);
}

/* What lived in a slot, if anything did, no longer does. The stack of a block of before the shard is not known. */
static bool leave(struct summary *s, struct live_block *block)
{
    struct summary_stack *made;
    uint32_t state = block->state;

    if (state == LIVE_NONE)
        return true;
    block->state = LIVE_NONE;
    s->totals.live_bytes -= (int64_t)live_block_held(block);
    s->totals.live_blocks -= (int64_t)block->blocks;
    s->variances.live_bytes -= live_block_held_variance(block);
    s->variances.live_blocks -= mt_scaled_variance(block->blocks, 1);
    if (state == LIVE_BEFORE)
        return live_blocks_note_ended(&s->blocks, (uint32_t)(block - s->blocks.at));
    made = stack_row(s, block->stack);
    if (!made)
        return false;
    changing(s, made);
    made->live_blocks -= block->blocks;
    made->live_bytes -= live_block_held(block);
    return true;
}

/* A block has begun to live: is the heap larger than ever? */
static void note_peaks(struct summary *s)
{
    struct summary_totals *t = &s->totals;
    struct summary_variances *v = &s->variances;

    if (t->live_bytes > t->peak_bytes) {
        s->epoch++;
        t->ended_at_peak = s->blocks.n_ended;
        t->peak_bytes = t->live_bytes;
        v->peak_bytes = v->live_bytes;
    }
    if (t->live_blocks > t->peak_blocks) {
        t->peak_blocks = t->live_blocks;
        v->peak_blocks = v->live_blocks;
    }
}

static void add_variances(struct summary_variances *v, const struct live_block *block)
{
    v->allocated += live_block_variance(block, block->requested - block->recorded, block->recorded);
    v->live_bytes += live_block_held_variance(block);
    v->live_blocks += mt_scaled_variance(block->blocks, 1);
}

/* Put a block, or a new size of one, in a slot; made: the row of its stack. */
static void block_begin(struct summary *s, struct live_block *slot, struct live_block block, uint32_t stack,
                        struct summary_stack *made)
{
    *slot = block;
    slot->stack = stack;
    slot->state = LIVE_HERE;
    s->totals.allocated += block.size;
    s->totals.live_bytes += (int64_t)live_block_held(&block);
    s->totals.live_blocks += (int64_t)block.blocks;
    add_variances(&s->variances, &block);
    changing(s, made);
    made->bytes += block.size;
    made->live_blocks += block.blocks;
    made->live_bytes += live_block_held(&block);
    note_peaks(s);
}

static void count_uses(struct summary *s, double weight, const struct access_sums *uses)
{
    struct summary_variances *v = &s->variances;
    double *counted[] = {&v->loads, &v->stores, &v->modifies};
    const uint64_t read = uses->bytes[0] + uses->bytes[2], written = uses->bytes[1] + uses->bytes[2];

    for (unsigned kind = 0; kind < 3; kind++) {
        const uint64_t n = mt_scaled(weight, uses->counts[kind]);

        s->totals.events[MT_LOAD + kind] += n;
        s->totals.accessed[MT_LOAD + kind] += mt_scaled(weight, uses->bytes[kind]);
        *counted[kind] += mt_scaled_variance(n, uses->counts[kind]);
    }
    v->read += mt_scaled_variance(mt_scaled(weight, read), read);
    v->written += mt_scaled_variance(mt_scaled(weight, written), written);
}

/* In a sample, count the accesses to the block that lived in a slot. */
static void settle_uses(struct summary *s, const struct live_block *block)
{
    const size_t slot = (size_t)(block - s->blocks.at);

    if (slot >= s->n_uses)
        return;
    count_uses(s, block->weight, &s->uses[slot]);
    s->uses[slot] = (struct access_sums){0};
}

/* The accesses to the block in a slot; NULL when out of memory. */
static struct access_sums *uses_at(struct summary *s, uint32_t slot)
{
    return array_grow(&s->uses, &s->n_uses, (size_t)slot + 1, sizeof *s->uses) ? &s->uses[slot] : NULL;
}

static bool on_new(struct summary *s, const struct mt_event *e)
{
    const struct live_block made = live_block_of(e);
    struct live_block *block = live_blocks_reach(&s->blocks, e->slot);
    const uint32_t stack = known_stack(s, e->ref);
    struct summary_stack *row;

    if (!block || !leave(s, block) || !(row = stack_row(s, stack)))
        return false;
    settle_uses(s, block);
    s->sampled |= made.weight != 0;
    row->news += made.blocks;
    s->variances.news += mt_scaled_variance(made.blocks, 1);
    block_begin(s, block, made, stack, row);
    return true;
}

static bool on_free(struct summary *s, const struct mt_event *e)
{
    const double weight = mt_event_weight(e);
    struct live_block *block = live_blocks_reach(&s->blocks, e->slot);

    if (!block)
        return false;
    s->totals.freed += mt_scaled(weight, e->size);
    s->variances.frees += mt_scaled_variance(mt_scaled(weight, 1), 1);
    if (block->state != LIVE_NONE)
        s->variances.freed += live_block_variance(block, block->requested - block->recorded, block->recorded);
    settle_uses(s, block);
    return leave(s, block);
}

/* The events of this kind are counted here. */
static bool on_resize(struct summary *s, const struct mt_event *e)
{
    struct live_block *block = live_blocks_reach(&s->blocks, e->slot), resized;
    const uint32_t stack = known_stack(s, e->ref);
    struct summary_stack *row;

    if (!block)
        return false;
    resized = live_block_resized(block, e);
    s->totals.events[MT_RESIZE] += resized.blocks;
    s->totals.freed += mt_scaled(resized.weight, e->old_size);
    s->variances.resizes += live_block_variance(&resized, resized.resizes - 1, 1);
    if (block->state != LIVE_NONE)
        s->variances.freed += live_block_variance(block, block->requested - block->recorded, block->recorded);
    if (!leave(s, block) || !(row = stack_row(s, stack)))
        return false;
    row->resizes += resized.blocks;
    block_begin(s, block, resized, stack, row);
    return true;
}

static bool heap_event(struct summary *s, const struct mt_event *e)
{
    switch (e->kind) {
    case MT_NEW:
        return on_new(s, e);
    case MT_FREE:
        return on_free(s, e);
    case MT_RESIZE:
        return on_resize(s, e);
    case MT_LOST:
        s->totals.lost += e->size;
        return true;
    default:
        return true;
    }
}

static inline bool is_access(const struct mt_event *e)
{
    return e->kind >= MT_LOAD && e->kind <= MT_MODIFY;
}

static inline void note_thread(struct summary *s, uint16_t thread)
{
    if (s->noted == thread + 1U)
        return;
    s->totals.threads[thread / 64] |= UINT64_C(1) << thread % 64;
    s->noted = thread + 1U;
}

/* An access that is no part of a segment. */
static bool on_access(struct summary *s, const struct mt_event *e)
{
    if (s->sampled && !e->freed) {
        struct access_sums *uses = uses_at(s, e->slot);

        if (uses) {
            uses->counts[e->kind - MT_LOAD]++;
            uses->bytes[e->kind - MT_LOAD] += e->size;
        }
        return uses != NULL;
    }
    s->totals.events[e->kind]++;
    s->totals.accessed[e->kind] += e->size;
    return true;
}

static bool take_events(struct summary *s, const struct mt_batch *batch, const struct mt_event *events,
                        size_t n)
{
    (void)batch;
    for (size_t i = 0; i < n; i++) {
        const struct mt_event *e = &events[i];

        note_thread(s, e->thread);
        if (!is_access(e) && e->kind != MT_RESIZE)
            s->totals.events[e->kind] += mt_scaled(mt_event_weight(e), 1);
        if (!(is_access(e) ? on_access(s, e) : heap_event(s, e)))
            return false;
    }
    if (n)
        s->totals.last_event = events[n - 1].time;
    return true;
}

/* The words of a segment that lay in no block. */
static void count_absent(struct word_sum *sums, uint32_t words, const struct mt_place *places)
{
    for (uint32_t w = 0; w < words; w++)
        sums[w].absent += places[w].slot == MT_NO_SLOT;
}

/* A segment ran. Nearly always all of its words lay in blocks: then one number counts it. */
static inline void count_segment(struct summary *s, const struct mt_segment_word *segment,
                                 const struct mt_step *step, const struct mt_place *places)
{
    struct word_sum *sums = &s->words.sums[step->segment];

    sums->runs++;
    if (step->count != segment->count)
        count_absent(sums, segment->words, places);
}

/* A segment ran in a sample: its accesses count for the blocks. False when out of memory. */
static bool use_segment(struct summary *s, const struct mt_segment_word *segment, const struct mt_step *step,
                        const struct mt_place *places)
{
    for (uint32_t w = 0; w < segment->words; w++) {
        struct access_sums *uses;

        if (places[w].slot == MT_NO_SLOT)
            continue;
        if (!(uses = uses_at(s, places[w].slot)))
            return false;
        access_sums_add(uses, &s->words.sums[step->segment + w].own, 1);
    }
    return true;
}

static inline bool take_segment(struct summary *s, const struct mt_batch *batch, const struct mt_step *step,
                                const struct mt_place *places)
{
    s->totals.last_event = step->time;
    note_thread(s, step->thread);
    if (s->sampled)
        return use_segment(s, &batch->segments[step->segment], step, places);
    count_segment(s, &batch->segments[step->segment], step, places);
    return true;
}

BATCH_WALK(summary, take_events, take_segment)

bool summary_feed(struct summary *s, const struct mt_batch *batch, uint32_t stacks)
{
    s->known = stacks;
    return words_learn(&s->words, batch) && summary_walk(s, batch);
}

static void add_accesses(struct summary *s, const struct access_sums *sums)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        s->totals.events[MT_LOAD + kind] += sums->counts[kind];
        s->totals.accessed[MT_LOAD + kind] += sums->bytes[kind];
    }
}

void summary_finish(struct summary *s)
{
    struct access_sums sums = {0};
    uint64_t runs = 0; /* of the segment that a word is of */

    for (size_t i = 0; i < s->words.n; i++) {
        struct word_sum *w = &s->words.sums[i];

        runs = w->first ? w->runs : runs;
        access_sums_add(&sums, &w->own, runs - w->absent);
        w->absent = w->runs = 0;
    }
    add_accesses(s, &sums);
    for (size_t slot = 0; slot < s->n_uses && slot < s->blocks.room; slot++)
        settle_uses(s, &s->blocks.at[slot]);
    for (size_t i = 0; i < s->of_stacks.n; i++)
        changing(s, &s->stacks[i]);
}

/* ---- shards -------------------------------------------------------------------------------- */

static void merge_totals(struct summary_totals *t, const struct summary_totals *shard)
{
    int64_t peak_bytes = t->live_bytes + shard->peak_bytes, peak_blocks = t->live_blocks + shard->peak_blocks;

    t->peak_bytes = peak_bytes > t->peak_bytes ? peak_bytes : t->peak_bytes;
    t->peak_blocks = peak_blocks > t->peak_blocks ? peak_blocks : t->peak_blocks;
    summary_totals_merge(t, shard);
}

/* A block of an earlier shard ended: it no longer lives at its stack. The totals of the shard count that already. */
static bool leave_stack(struct summary *s, uint32_t slot)
{
    struct live_block *block = live_blocks_found(&s->blocks, slot);
    struct summary_stack *made;

    if (!block)
        return true;
    if (!(made = stack_row(s, block->stack)))
        return false;
    made->live_blocks--;
    made->live_bytes -= live_block_held(block);
    block->state = LIVE_NONE;
    return true;
}

/* Blocks of earlier shards ended. False when out of memory. */
static bool leave_stacks(struct summary *s, const uint32_t *ended, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!leave_stack(s, ended[i]))
            return false;
    return true;
}

/* The peak of a shard is that of the whole. Its stacks have rows. */
static void merge_peak(struct summary *whole, const struct summary_partial *shard)
{
    for (size_t i = 0; i < whole->of_stacks.n; i++)
        whole->stacks[i].peak_bytes = whole->stacks[i].live_bytes;
    for (size_t i = 0; i < shard->n_stacks; i++)
        whole->stacks[keyed_rows_index(&whole->of_stacks, shard->of_rows[i])].peak_bytes +=
            shard->stacks[i].peak_bytes;
}

bool summary_merge(struct summary *whole, const struct summary_partial *shard)
{
    const struct summary_totals *of_shard = shard->totals;
    const bool is_peak = whole->totals.live_bytes + of_shard->peak_bytes > whole->totals.peak_bytes;
    const size_t before_peak = is_peak ? of_shard->ended_at_peak : 0;

    for (size_t i = 0; i < shard->n_stacks; i++)
        if (!stack_row(whole, shard->of_rows[i]))
            return false;
    if (!leave_stacks(whole, shard->ended, before_peak))
        return false;
    if (is_peak)
        merge_peak(whole, shard);
    if (!leave_stacks(whole, shard->ended + before_peak, shard->n_ended - before_peak))
        return false;
    for (size_t i = 0; i < shard->n_stacks; i++)
        summary_stack_merge(stack_row(whole, shard->of_rows[i]), &shard->stacks[i]);
    merge_totals(&whole->totals, of_shard);
    return live_blocks_merge(&whole->blocks, shard->list, shard->n_list);
}

unsigned summary_threads(const struct summary *s)
{
    unsigned n = 0;

    for (size_t i = 0; i < SUMS_THREADS / 64; i++)
        n += bits_count(s->totals.threads[i]);
    return n;
}
