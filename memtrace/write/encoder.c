/* encoder.c - encodes segments of accesses into the streams of an EVENTS chunk: the fast paths.
 *
 * encoder_segments is the hot loop of the recorder's collector. It predicts the next segment and the place of each of
 * its words (memtrace/format/predictor.h). There are four cases:
 *
 * - A segment that is as predicted takes the shortest path. It checks that the address lies in the predicted block
 * and does not search the block map. This suffices, because blocks do not overlap.
 *
 * - A segment that was not predicted, but whose words are all where their own state predicts, is encoded by
 * code_taken.
 *
 * - A segment all of whose words are outside heap blocks, such as accesses of C code to the stack, is only counted
 * (is_quiet).
 *
 * - All other segments are encoded by code_segment in encoder_miss.c, which finds the block of each word.
 *
 * The parts of a fused segment (fusion.h) are gathered into one array of words; it is then encoded like any other
 * segment.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/encoder_miss.h"

#include <string.h>

bool encoder_init(struct encoder *e)
{
    *e = (struct encoder){0};
    return codebook_init(&e->book);
}

void encoder_destroy(struct encoder *e)
{
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        buffer_free(&e->streams[i]);
    codebook_free(&e->book);
    fusion_free(&e->fusion);
}

bool encoder_segment(struct encoder *e)
{
    const uint32_t segment = e->book.segment_count - 1, line = e->book.segments[segment].line;
    e->book.lines[line].name = e->fusion.count * 2;
    return fusion_add(&e->fusion, segment, line);
}

void encoder_start(struct encoder *e, uint64_t time)
{
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        buffer_reset(&e->streams[i]);
    e->streams[STREAM_RARE].time = time;
    e->epoch = (e->epoch + 1) & ~QUIET;
    e->prev_line = NO_LINE;
    e->recent = (struct recent){0};
    e->run = 0;
    e->count = 0;
    e->room = 0; /* the streams may have other memory now */
    segment_reset(&e->book.lines[NO_LINE], e->epoch);
}

/* Does a segment that accessed no block the last time access no block this time either? */
static inline bool is_quiet(struct encoder *e, struct batch *b, const struct word_state *first,
                            struct words words)
{
    tally sum = {0};
    if (!(first->epoch & QUIET))
        return false;
    for (uint32_t i = 0; i < first->words; i++) {
        if (!is_foreign(e, &first[i], word_at(words, i) + (uint64_t)(int64_t)first[i].lowest))
            return false;
        sum += tally_of(first[i].counts);
    }
    b->outside += sum;
    return true;
}

/* Process the words of a segment as long as they are as predicted, and return their number. This does what
 * take_word does for each word, but in one loop with its values in registers, because the number of instructions
 * determines the speed. Split into functions it takes 3 to 5% longer. */
static inline __attribute__((always_inline)) uint32_t
take_words(struct encoder *e, struct batch *b, struct word_state *first, const struct words words)
{
    const struct block *const blocks = b->blocks;
    struct words at = words;
    struct word_state *s = first, *const end = first + first->words;
    uint32_t next = e->recent.next, counts = 0;
    do {
        const uint64_t lowest = word_at(at, 0) + (uint64_t)(int64_t)s->lowest;
        uint32_t slot = s->slot;
        const uint8_t mode = s->mode;
        if (mode & MODE_FOREIGN) {
            if (!is_foreign(e, s, lowest))
                break;
            b->outside += tally_of(s->counts);
            continue;
        }
        if (mode & MODE_BACK) {
            const uint32_t i = (next - mode) % RECENT;
            slot = e->recent.slot[i];
            if (lowest != e->recent.addr[i] + s->back || !is_inside(&blocks[slot], s, lowest))
                break;
            learn_own(s, lowest, slot);
        } else {
            const uint64_t stride = s->stride;
            if (lowest != s->addr + stride || !is_inside(&blocks[slot], s, lowest))
                break;
            s->addr = lowest;
            s->delta = stride;
        }
        recent_put(&e->recent, next++, lowest, slot);
        counts += s->counts;
    } while (at.first += at.apart, ++s != end);
    e->recent.next = next;
    b->live += tally_of(counts);
    return (uint32_t)(s - first);
}

/* Let the caller's `between` function process data that is not a segment. Returns the number of bytes processed, 0
 * at the end of the stream. */
static inline size_t take_between(struct encoder *e, const struct surroundings *in, const struct batch *b,
                                  const uint8_t *at, const uint8_t *end)
{
    struct mt_change c = {.vm = MT_VMS};
    size_t used = b->between ? b->between->take(b->between->context, at, (size_t)(end - at), &c) : 0;
    if (c.vm == MT_VMS)
        return used;
    uint64_t time = b->began + b->live[3] + b->outside[3] + c.uncounted;
    if (time > in->totals->instructions)
        in->totals->instructions = time;
    encoder_change(e, in, &c);
    return used;
}

/* Process the segment with this line, which need not be the predicted one. */
static inline __attribute__((always_inline)) void take_line(struct encoder *e, const struct surroundings *in,
                                                            struct batch *b, uint32_t line,
                                                            struct words words)
{
    struct word_state *first = &e->book.lines[line];
    const uint32_t before = e->recent.next;
    if (is_quiet(e, b, first, words))
        return;
    if ((first->epoch & ~QUIET) != e->epoch)
        segment_reset(first, e->epoch);
    uint32_t taken = take_words(e, b, first, words);
    struct missed m = {words, line, taken, e->recent.next != before};
    if (taken == first->words && m.live)
        code_taken(e, in, &m);
    else
        code_segment(e, in, b, &m);
}

/* Define the fused segment that begins with this segment, if that is possible. */
static void fuse(struct encoder *e, const struct surroundings *in, uint32_t id)
{
    struct mt_access accesses[MT_SEGMENT_MOST];
    uint32_t parts[FUSION_PARTS];
    struct mt_segment s;
    unsigned n = fusion_plan(&e->fusion, &e->book, id, &s, accesses, parts);
    if (n > 1 && !in->define(in->writer, &s))
        n = 0;
    fusion_made(&e->fusion, &e->book, id, parts, n);
}

/* Gather the words of the fused segment that begins with this segment, and define it first if it is ready to be
 * fused. Returns the number of bytes of the stream that it covers, 0 if other segments follow in the stream. */
static size_t gather(struct encoder *e, const struct surroundings *in, uint32_t id, const uint8_t *at,
                     const uint8_t *end, uint64_t words[FUSION_WORDS])
{
    const struct fusible *s = &e->fusion.of[id];
    if (s->state == FUSION_READY)
        fuse(e, in, id);
    return s->state == FUSION_MADE ? fusion_gather(&e->book.lines[s->fused], at, end, words) : 0;
}

/* Process a segment that is not the predicted one, or data that is not a segment. */
static __attribute__((noinline)) size_t take_other(struct encoder *e, const struct surroundings *in,
                                                   struct batch *b, const uint8_t *at, const uint8_t *end)
{
    uint64_t words[FUSION_WORDS];
    const uint32_t id = mt_stream_id(at);
    if (id >= e->fusion.count)
        return take_between(e, in, b, at, end);
    const struct fusible *s = &e->fusion.of[id];
    const size_t bytes = mt_stream_bytes(e->book.lines[s->line].words);
    if (bytes > (size_t)(end - at))
        return 0;
    size_t used = gather(e, in, id, at, end, words);
    if (used)
        take_line(e, in, b, s->fused, words_gathered(words));
    else
        take_line(e, in, b, s->line, words_of(at));
    return used ? used : bytes;
}

/* Process the predicted segment. */
static inline __attribute__((always_inline)) void take_guessed(struct encoder *e,
                                                               const struct surroundings *in, struct batch *b,
                                                               struct word_state *first, uint32_t line,
                                                               struct words words)
{
    const uint32_t before = e->recent.next, taken = take_words(e, b, first, words);
    const bool live = e->recent.next != before;
    if (taken == first->words) {
        e->run += live;
        e->prev_line = live ? line : e->prev_line;
    } else {
        code_segment(e, in, b, &(struct missed){words, line, taken, live});
    }
}

/* Process the segment at `at` and return its number of bytes, or 0 if the stream holds no complete segment there.
 * The predicted segment has already run in this chunk, so its state is initialized. */
static inline __attribute__((always_inline)) size_t take_segment(struct encoder *e,
                                                                 const struct surroundings *in,
                                                                 struct batch *b, const uint8_t *at,
                                                                 const uint8_t *end)
{
    __builtin_prefetch(at + PREFETCH_BYTES);
    const uint32_t id = mt_stream_id(at);
    const uint32_t line = e->book.lines[e->prev_line].next[0];
    struct word_state *first = &e->book.lines[line];
    if ((uint64_t)id << 1 == first->name) {
        const size_t bytes = mt_stream_bytes(first->words);
        if (bytes > (size_t)(end - at))
            return 0;
        take_guessed(e, in, b, first, line, words_of(at));
        return bytes;
    }
    uint64_t words[FUSION_WORDS];
    size_t used = ((uint64_t)id << 1 | 1) == first->name ? fusion_gather(first, at, end, words) : 0;
    if (!used)
        return take_other(e, in, b, at, end);
    take_guessed(e, in, b, first, line, words_gathered(words));
    return used;
}

/* Pass the segments just processed to the observation of fusion. *last is the last segment observed,
 * FUSION_NOTHING if there is none. */
static __attribute__((noinline)) void watch(struct encoder *e, const uint8_t *at, size_t used, uint32_t *last)
{
    for (const uint8_t *end = at + used; at < end;
         at += mt_stream_bytes(e->book.lines[e->fusion.of[*last].line].words)) {
        const uint32_t found = mt_stream_id(at), id = found < e->fusion.count ? found : FUSION_NOTHING;
        if (*last != FUSION_NOTHING)
            fusion_observe(&e->fusion, &e->book, *last, id);
        *last = id;
        if (id == FUSION_NOTHING)
            return;
    }
}

static void end_batch(struct encoder *e, const struct surroundings *in, const struct batch *b,
                      uint64_t *instructions)
{
    struct mt_totals *t = in->totals;
    t->events[MT_LOAD] += b->live[0];
    t->events[MT_STORE] += b->live[1];
    t->events[MT_MODIFY] += b->live[2];
    t->foreign += b->outside[0] + b->outside[1] + b->outside[2];
    e->count += b->live[0] + b->live[1] + b->live[2];
    *instructions += b->live[3] + b->outside[3];
}

/* The offset from which fewer than MT_STREAM_ID bytes remain of n. */
static inline size_t ids_end(size_t n)
{
    return n < MT_STREAM_ID ? 0 : n - MT_STREAM_ID + 1;
}

size_t encoder_segments(struct encoder *e, const struct surroundings *in, const uint8_t *stream, size_t n,
                        uint64_t *instructions, const struct mt_between *between)
{
    const uint8_t *at = stream, *const end = stream + n;
    const uint8_t *const stop = stream + (n < ENCODE_BYTES + MT_STREAM_ID ? ids_end(n) : ENCODE_BYTES);
    struct batch b = {.blocks = in->live->blocks, .between = between, .began = *instructions};
    const bool watched = fusion_samples(&e->fusion);
    uint32_t last = FUSION_NOTHING;
    check_foreign(e, in);
    for (size_t used = 1; used && at < stop; at += used) {
        used = take_segment(e, in, &b, at, end);
        if (__builtin_expect(watched, 0))
            watch(e, at, used, &last);
    }
    if (last != FUSION_NOTHING && (at < stop || n < ENCODE_BYTES + MT_STREAM_ID))
        fusion_observe(&e->fusion, &e->book, last, FUSION_NOTHING);
    end_batch(e, in, &b, instructions);
    return (size_t)(at - stream);
}

void encoder_accesses(struct encoder *e, const struct surroundings *in, const uint32_t *sites,
                      const uint64_t *addrs, size_t n)
{
    check_foreign(e, in);
    for (size_t i = 0; i < n; i++)
        code_access(e, in, sites[i], addrs[i]);
}

void encoder_change(struct encoder *e, const struct surroundings *in, const struct mt_change *c)
{
    put_vm(encoder_rare(e),
           &(struct rec_vm){in->totals->instructions, c->heap < in->heaps ? c->heap : 0,
                            c->vm < MT_VMS ? c->vm : MT_VM_C, c->vm == MT_VM_TRACE ? c->trace : 0});
    in->totals->events[MT_STATE]++;
    e->count++;
}

struct buffer *encoder_rare(struct encoder *e)
{
    put_token(e, 0);
    return &e->streams[STREAM_RARE];
}

uint64_t encoder_bytes(const struct encoder *e)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < EVENT_STREAMS; i++) {
        if (e->streams[i].failed)
            return UINT64_MAX;
        n += buffer_size(&e->streams[i]);
    }
    return n;
}
