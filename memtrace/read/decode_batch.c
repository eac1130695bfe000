/* decode_batch.c - decodes segments into batches: the steps and places that mt_next_batch delivers.
 *
 * Most segments have one to three words, and on average hardly more than one segment in sequence is wholly as
 * predicted. One loop therefore reads predicted segments, other segments and tokens. Its state is in local variables,
 * because the compiler cannot exclude that writing places changes the originals.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/read/decode_batch.h"
#include "memtrace/read/decode_miss.h"

/* State of the loop; the members after `wrong` are constant. Its address is passed to inline functions only, so
 * that it stays in registers. */
struct packing {
    struct mt_step *step;
    struct mt_place *places;
    uint32_t line, next; /* the current segment; `next` of struct recent */
    uint32_t accesses;   /* number of accesses of the current segment */
    uint32_t left;       /* number of events of the chunk not decoded yet */
    int64_t whole;       /* negative: a word is not wholly in its block */
    bool wrong;          /* a word is in a block that never existed */
    const struct mt_step *end;
    uint64_t time;
};

/* Are `extent` > 0 bytes from `addr` in the block? The result is negative if not. There are no branches, and
 * several results can be joined by `|`. The result is also negative for offsets of half the address space or more,
 * and for extents above INT32_MAX, which mark words that never fit. */
static inline int64_t lies_whole(const struct live_block *b, uint64_t addr, uint32_t extent)
{
    const uint64_t offset = addr - b->base, room = b->size - offset;
    const uint64_t bytes = (uint64_t)(int32_t)extent;
    return (int64_t)(offset | room | (room - bytes) | bytes);
}

/* Store a step field by field, because the compiler would first assemble a compound literal in registers. */
static inline void put_step(struct mt_step *step, uint64_t time, uint32_t line, uint16_t thread,
                            uint32_t accesses)
{
    step->time = time;
    step->segment = line;
    step->thread = thread;
    step->count = (uint16_t)accesses;
}

static bool know_segments(struct decoder *d)
{
    if (d->batch->n_segments >= d->book.line_count || batch_learn(d->batch, &d->book))
        return true;
    d->wrong = "out of memory for segments";
    return false;
}

static size_t unpack(struct decoder *d, struct mt_event *ev, uint32_t line, const struct mt_place *places)
{
    size_t made = decoder_segment_events(d, ev, line, places);
    batch_events(d->batch, made);
    return made;
}

/* Decode the place of a word that is as predicted. */
static inline void pack_word(struct packing *k, struct decoder *d, const struct live_block *blocks,
                             struct word_state *s, const struct mt_segment_word *segment,
                             struct mt_place *place)
{
    if (s->mode & MODE_FOREIGN) {
        place->slot = MT_NO_SLOT;
        k->accesses -= segment->own;
        return;
    }
    const struct guess g = guess_word_at(s, &d->recent, k->next);
    if (__builtin_expect(g.slot >= d->block_count, 0)) {
        k->wrong = true;
        return;
    }
    k->whole |= lies_whole(&blocks[g.slot], g.addr, segment->extent);
    learn_own(s, g.addr, g.slot);
    recent_put(&d->recent, k->next++, g.addr, g.slot);
    place->addr = g.addr;
    place->slot = g.slot;
}

/* Decode the places of a segment that is as predicted. The step is added later. */
static inline void pack_segment(struct packing *k, struct decoder *d, struct word_state *lines,
                                const struct live_block *blocks, const struct mt_segment_word *segments)
{
    uint32_t line = lines[k->line].next[0];
    struct word_state *s = &lines[line];
    const uint32_t words = s->words;
    k->line = line;
    k->accesses = segments[line].count;
    pack_word(k, d, blocks, s, &segments[line], k->places);
    for (uint32_t i = 1; i < words; i++)
        pack_word(k, d, blocks, &s[i], &segments[line + i], &k->places[i]);
}

/* Must the current segment be delivered as events? */
static inline bool is_early(const struct packing *k)
{
    return __builtin_expect((k->whole < 0) | k->wrong, 0) || __builtin_expect(k->accesses > k->left, 0) ||
           __builtin_expect(k->line == NO_LINE, 0);
}

static inline void deliver_segment(struct packing *k, const struct decoder *d,
                                   const struct mt_segment_word *segments)
{
    k->left -= k->accesses;
    if (!k->accesses)
        return;
    put_step(k->step++, k->time, k->line, d->thread, k->accesses);
    k->places += segments[k->line].words;
}

/* Decode a run of segments that are as predicted; false if it stopped before the end of the run. */
__attribute__((always_inline)) static inline bool pack_run(struct packing *k, struct decoder *d)
{
    const struct mt_segment_word *segments = d->batch->segments;
    uint64_t run = d->run;
    for (; run && k->step < k->end; run--) {
        pack_segment(k, d, d->book.lines, d->blocks, segments);
        if (is_early(k))
            break;
        deliver_segment(k, d, segments);
    }
    d->run = run;
    return run == 0;
}

/* Decode the place of a word that is not as predicted; false if it is invalid. */
__attribute__((always_inline)) static inline bool decode_missed(struct decoder *d, struct word_state *s,
                                                                unsigned code, struct mt_place *place)
{
    switch (code) {
    case WORD_OTHER:
        return decode_as(d, s, WORD_OTHER, place);
    case WORD_BACK:
        return decode_as(d, s, WORD_BACK, place);
    case WORD_INSIDE:
        return decode_as(d, s, WORD_INSIDE, place);
    case WORD_BLOCK:
        return decode_as(d, s, WORD_BLOCK, place);
    case WORD_AGAIN:
        return s->mode & MODE_FOREIGN && decode_as(d, s, WORD_AGAIN, place);
    default:
        return false;
    }
}

__attribute__((always_inline)) static inline void pack_missed(struct packing *k, struct decoder *d,
                                                              struct word_state *s,
                                                              const struct mt_segment_word *segment,
                                                              unsigned code, struct mt_place *place)
{
    if (code == WORD_FOREIGN) {
        s->mode |= MODE_FOREIGN;
        place->slot = MT_NO_SLOT;
        k->accesses -= segment->own;
        return;
    }
    d->recent.next = k->next;
    if (decode_missed(d, s, code, place))
        k->whole |= lies_whole(&d->blocks[place->slot], place->addr, segment->extent);
    else
        k->wrong = true;
    k->next = d->recent.next;
}

/* Decode the places of a segment that is not as predicted. */
__attribute__((always_inline)) static inline void pack_words(struct packing *k, struct decoder *d,
                                                             struct word_state *first, uint64_t codes)
{
    const struct mt_segment_word *segment = &d->batch->segments[k->line];
    const uint32_t words = first->words;
    k->accesses = segment->count;
    for (uint32_t i = 0; i < words; i++, codes >>= WORD_BITS)
        if (codes & WORD_MASK)
            pack_missed(k, d, &first[i], &segment[i], codes & WORD_MASK, &k->places[i]);
        else
            pack_word(k, d, d->blocks, &first[i], &segment[i], &k->places[i]);
}

/* Decode the segment after a run; false if it stopped there. */
__attribute__((always_inline)) static inline bool pack_miss(struct packing *k, struct decoder *d)
{
    const unsigned misses = (unsigned)d->misses;
    const uint32_t line = misses & MISS_SEGMENT ? decode_segment(d, k->line) : d->book.lines[k->line].next[0];
    const uint64_t codes = misses & MISS_WORDS ? cursor_uvarint(&d->streams[STREAM_CODES]) : 0;
    struct word_state *first = &d->book.lines[line];
    if (line == NO_LINE || misses > (MISS_SEGMENT | MISS_WORDS) || codes >> first->words * WORD_BITS) {
        d->wrong = "a segment is undefined or invalid";
        return false;
    }
    if (!know_segments(d))
        return false;
    k->line = line;
    pack_words(k, d, first, codes);
    if (any_bad(d))
        d->wrong = "access streams are cut off";
    if (d->wrong || is_early(k))
        return false;
    deliver_segment(k, d, d->batch->segments);
    return true;
}

/* Deliver the current segment as events, and return their number. */
static size_t end_early(struct decoder *d, const struct packing *k, struct mt_event *ev)
{
    if (d->wrong)
        return 0;
    if (k->line == NO_LINE)
        d->wrong = "a segment is predicted that never ran";
    else if (k->wrong)
        d->wrong = "an access lies in no live block";
    else if (k->whole >= 0)
        d->wrong = "more accesses than the chunk has events";
    if (d->wrong)
        return 0;
    if (d->run)
        d->run--;
    else
        d->misses = -1;
    return unpack(d, ev, k->line, k->places);
}

/* Copy the state of the loop back to the decoder and the batch. */
static void end_packing(struct decoder *d, const struct packing *k)
{
    struct batch *p = d->batch;
    p->n_steps = (uint32_t)(k->step - p->steps);
    p->n_places = (uint32_t)(k->places - p->places);
    p->total += d->left - k->left;
    d->left = k->left;
    d->recent.next = k->next;
    d->prev_line = k->line;
}

static inline struct packing begin_packing(const struct decoder *d)
{
    struct batch *p = d->batch;
    return (struct packing){.step = &p->steps[p->n_steps],
                            .end = &p->steps[BATCH_STEPS],
                            .places = batch_places(p),
                            .time = d->streams[STREAM_RARE].time,
                            .left = d->left,
                            .line = d->prev_line,
                            .next = d->recent.next};
}

size_t decoder_pack_segments(struct decoder *d, struct mt_event *ev)
{
    if (!know_segments(d))
        return 0;
    struct packing k = begin_packing(d);
    bool whole;
    while ((whole = pack_run(&k, d)) && d->misses > 0 && k.step < k.end && (whole = pack_miss(&k, d))) {
        read_token(d, k.left);
        if (d->wrong)
            break;
    }
    end_packing(d, &k);
    return whole || k.step == k.end ? 0 : end_early(d, &k, ev);
}
