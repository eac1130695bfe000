/* decode_miss.h - reads what the streams of an EVENTS chunk say of segments that were not as predicted.
 *
 * The functions are inline, because on average hardly more than one segment in sequence is as predicted, so they
 * belong to the hot loops of decoder.c and decode_batch.c, their only users.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_DECODE_MISS_H
#define MEMTRACE_READ_DECODE_MISS_H

#include "memtrace/base/prefetch.h"
#include "memtrace/read/decoder.h"

/* Read the next token. `left` is the number of events of the chunk not decoded yet. */
static inline void read_token(struct decoder *d, uint32_t left)
{
    struct cursor *c = &d->streams[STREAM_TOKENS];
    uint8_t token = cursor_byte(c);
    d->misses = token & 7;
    d->run = token >> 3;
    if (d->run == RUN_LONG)
        d->run += cursor_uvarint(c);
    if (c->bad)
        d->wrong = "token stream is cut off";
    else if (d->run + (d->misses != 0) > left)
        d->wrong = "more accesses than the chunk has events";
}

/* The line of the segment or site with a name from the stream. */
static inline uint32_t named_line(struct decoder *d, uint64_t name)
{
    uint64_t id = name >> 1;
    if (name & 1)
        return id - 1 < d->book.site_count - 1u ? codebook_site_line(&d->book, (uint32_t)id) : NO_LINE;
    return id < d->book.segment_count ? d->book.segments[id].line : NO_LINE;
}

/* Read the segment after the one at line `prev`, if it is not the predicted one. */
static inline uint32_t decode_segment(struct decoder *d, uint32_t prev)
{
    uint64_t v = cursor_uvarint(&d->streams[STREAM_SEGMENTS]);
    uint32_t line = v == 0 ? d->book.lines[prev].next[1] : named_line(d, v - 1);
    if (line == NO_LINE)
        return NO_LINE;
    if (d->book.lines[line].epoch != d->epoch)
        segment_reset(&d->book.lines[line], d->epoch);
    learn_segment(&d->book.lines[prev], line);
    return line;
}

/* Prefetch the live block that the next number of the stream of slots refers to. */
static inline void prefetch_next_slot(const struct decoder *d)
{
    struct cursor ahead = d->streams[STREAM_SLOTS];
    uint64_t slot;
    if (decoder_has_far_blocks(d) && cursor_within_eight(&ahead, &slot) && slot < d->block_count)
        fetch_soon(&d->blocks[slot]);
}

/* Read the place of a word that is not as predicted; false if it is invalid. This function and the next are always
 * inlined, so that each code has its own copy without tests of the code. */
__attribute__((always_inline)) static inline bool decode_place(struct decoder *d, const struct word_state *s,
                                                               enum word_code code, uint32_t *age,
                                                               struct guess *g)
{
    *g = code == WORD_OTHER ? guess_other(s, &d->recent) : guess_word(s, &d->recent);
    if (code == WORD_BACK) {
        *age = (uint32_t)cursor_uvarint(&d->streams[STREAM_AGES]);
        if (*age - 1 >= RECENT)
            return false;
        *g = guess_back(s, &d->recent, *age);
    }
    if (code == WORD_BLOCK) {
        uint64_t slot = cursor_uvarint(&d->streams[STREAM_SLOTS]);
        g->slot = slot < d->block_count ? (uint32_t)slot : UINT32_MAX;
        prefetch_next_slot(d);
    }
    if (g->slot >= d->block_count)
        return false;
    if (code == WORD_BLOCK || code == WORD_INSIDE)
        g->addr = d->blocks[g->slot].base + cursor_uvarint(&d->streams[STREAM_OFFSETS]);
    return true;
}

/* Read a word that is not foreign and not as predicted, and update the prediction. */
__attribute__((always_inline)) static inline bool decode_as(struct decoder *d, struct word_state *s,
                                                            enum word_code code, struct mt_place *p)
{
    uint32_t age = 0;
    struct guess g;
    if (!decode_place(d, s, code, &age, &g))
        return false;
    learn_miss(s, &d->recent, code, age, g.addr, g.slot);
    learn_word(s, &d->recent, g.addr, g.slot);
    *p = (struct mt_place){g.addr, g.slot};
    return true;
}

/* Was the end of one of the streams of accesses exceeded? */
static inline bool any_bad(const struct decoder *d)
{
    const struct cursor *s = d->streams;
    return s[STREAM_SEGMENTS].bad | s[STREAM_SLOTS].bad | s[STREAM_OFFSETS].bad | s[STREAM_CODES].bad |
           s[STREAM_AGES].bad;
}

#endif
