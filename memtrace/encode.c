/* encode.c - the EVENTS chunk being made; see encode.h and predict.h.
 *
 * encoder_segments is the hot loop of the recorder's collector. Segments that are wholly as expected take a
 * short way that never asks the block map: the guessed block is looked at, and blocks do not overlap. A
 * segment that was not expected itself may have words that are (code_taken). Those whose words are all
 * foreign, as in the code of C programs that works on the stack, take another. What is left goes through
 * code_segment (encode_slow.c), which finds out what each word is.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "encode_slow.h"

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
    e->room = 0; /* the streams may have other memory */
    segment_reset(&e->book.lines[NO_LINE], e->epoch);
}

/* Does a segment that touched no block the last time touch none now? */
static inline bool is_quiet(struct encoder *e, struct batch *b, const struct word_state *first,
                            const uint64_t *words)
{
    tally sum = {0};
    if (!(first->epoch & QUIET))
        return false;
    for (uint32_t i = 0; i < first->words; i++) {
        if (!is_foreign(e, &first[i], words[i] + (uint64_t)(int64_t)first[i].lowest))
            return false;
        sum += tally_of(first[i].counts);
    }
    b->outside += sum;
    return true;
}

/* The line of a segment that was not guessed; NO_LINE if there is none. */
static inline uint32_t line_of(const struct encoder *e, uint64_t id)
{
    return id < e->book.segment_count ? e->book.segments[id].line : NO_LINE;
}

/* Take the words of a segment for as long as they are as guessed; how many. It does what take_word does, all
 * in one, with what a loop can keep at hand: instructions are what counts here. Parted into functions it
 * takes 3 to 5% longer. */
static inline __attribute__((always_inline)) uint32_t
take_words(struct encoder *e, struct batch *b, struct word_state *first, const uint64_t *words)
{
    const struct block *const blocks = b->blocks;
    const uint64_t *at = words, *const end = words + first->words;
    struct word_state *s = first;
    uint32_t next = e->recent.next, counts = 0;
    do {
        const uint64_t lowest = *at + (uint64_t)(int64_t)s->lowest;
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
    } while (s++, ++at != end);
    e->recent.next = next;
    b->live += tally_of(counts);
    return (uint32_t)(at - words);
}

/* What is no segment; the words it has, 0 if the stream ends here. */
static inline size_t take_between(struct encoder *e, const struct surroundings *in, const struct batch *b,
                                  const uint64_t *at, const uint64_t *end)
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

/* A segment that did not follow the one before the last time, or something else. */
static __attribute__((noinline)) size_t take_other(struct encoder *e, const struct surroundings *in,
                                                   struct batch *b, const uint64_t *at, const uint64_t *end)
{
    uint32_t line = line_of(e, at[0]), before = e->recent.next;
    struct word_state *first = &e->book.lines[line];
    uint32_t n = first->words;
    if (line == NO_LINE || n >= (size_t)(end - at))
        return take_between(e, in, b, at, end);
    if (is_quiet(e, b, first, at + 1))
        return 1 + (size_t)n;
    if ((first->epoch & ~QUIET) != e->epoch)
        segment_reset(first, e->epoch);
    uint32_t taken = take_words(e, b, first, at + 1);
    struct missed m = {at + 1, (uint32_t)at[0], line, taken, e->recent.next != before};
    if (taken == n && m.live)
        code_taken(e, in, &m);
    else
        code_segment(e, in, b, &m);
    return 1 + (size_t)n;
}

/* Take the segment at `at`; how many words of the stream it has, 0 if there is none or not all of it. The one
 * that is guessed has run in this chunk. */
static inline size_t take_segment(struct encoder *e, const struct surroundings *in, struct batch *b,
                                  const uint64_t *at, const uint64_t *end)
{
    __builtin_prefetch(at + PREFETCH_WORDS);
    uint32_t line = e->book.lines[e->prev_line].next[0], before = e->recent.next;
    struct word_state *first = &e->book.lines[line];
    if (at[0] << 1 != first->name)
        return take_other(e, in, b, at, end);
    uint32_t n = first->words;
    if (n >= (size_t)(end - at))
        return 0;
    uint32_t taken = take_words(e, b, first, at + 1);
    bool live = e->recent.next != before;
    if (taken == n) {
        e->run += live;
        e->prev_line = live ? line : e->prev_line;
    } else {
        code_segment(e, in, b, &(struct missed){at + 1, (uint32_t)at[0], line, taken, live});
    }
    return 1 + (size_t)n;
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

size_t encoder_segments(struct encoder *e, const struct surroundings *in, const uint64_t *stream, size_t n,
                        uint64_t *instructions, const struct mt_between *between)
{
    const uint64_t *at = stream, *end = stream + n, *stop = n < ENCODE_BATCH ? end : stream + ENCODE_BATCH;
    struct batch b = {.blocks = in->live->blocks, .between = between, .began = *instructions};
    check_foreign(e, in);
    for (size_t used = 1; used && at < stop; at += used)
        used = take_segment(e, in, &b, at, end);
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
