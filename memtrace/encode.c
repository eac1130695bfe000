/* encode.c - the EVENTS chunk being made; see encode.h and predict.h.
 *
 * encoder_segments is the hot loop of the recorder's collector. Segments that are wholly as expected take a
 * short way that never asks the block map: the guessed block is looked at, and blocks do not overlap. Those
 * whose words are all foreign, as in the code of C programs that works on the stack, take another. What is
 * left goes through code_segment (encode_slow.c), which finds out what each word is.
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
    segment_reset(&e->book.lines[NO_LINE], e->epoch);
}

/* What a batch has in common, in local variables, because the compiler cannot know that writing a state does
 * not change it. */
struct batch {
    const struct block *blocks;
    const uint64_t *foreign;
    uint32_t used; /* slots */
    uint64_t loads, stores, modifies, foreigners, instructions;
};

static inline void count_live(struct batch *b, uint32_t counts)
{
    b->loads += counts & 0xff;
    b->stores += counts >> 8 & 0xff;
    b->modifies += counts >> 16 & 0xff;
}

/* Is the whole word in pages known to be foreign? */
static inline bool is_foreign(const struct batch *b, const struct word_state *s, uint64_t lowest)
{
    return foreign_page(b->foreign, lowest) && foreign_page(b->foreign, lowest + s->span);
}

/* Is a word in the guessed place, and that in a block? */
static inline bool is_guessed(const struct batch *b, const struct word_state *s, uint64_t lowest,
                              struct guess g)
{
    if (lowest != g.addr || g.slot >= b->used)
        return false;
    const struct block *block = &b->blocks[g.slot];
    uint64_t offset = lowest - block->base;
    return offset < block->size && s->span < block->size - offset;
}

/* Take the words of a warm segment, as long as they are as guessed; how many, and how many of them are not
 * foreign. */
static inline uint32_t take_guessed(struct batch *b, struct recent *recent, struct word_state *first,
                                    const uint64_t *words, uint32_t n, uint32_t *live)
{
    *live = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct word_state *s = &first[i];
        uint64_t lowest = words[i] + (uint64_t)(int64_t)s->lowest;
        if (s->mode & MODE_FOREIGN) {
            if (!is_foreign(b, s, lowest))
                return i;
            b->foreigners += accesses_of(s);
            continue;
        }
        struct guess g = guess_word(s, recent);
        if (!is_guessed(b, s, lowest, g))
            return i;
        learn_word(s, recent, lowest, g.slot);
        count_live(b, s->counts);
        ++*live;
    }
    return n;
}

/* Does a segment that touched no block the last time touch none now? */
static inline bool is_quiet(struct batch *b, const struct word_state *first, const uint64_t *words,
                            uint32_t n)
{
    uint64_t accesses = 0;
    if (!(first->epoch & QUIET))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_foreign(b, &first[i], words[i] + (uint64_t)(int64_t)first[i].lowest))
            return false;
        accesses += accesses_of(&first[i]);
    }
    b->foreigners += accesses;
    return true;
}

static struct batch begin_batch(struct encoder *e, const struct surroundings *in)
{
    check_foreign(e, in);
    return (struct batch){.blocks = in->live->blocks, .foreign = e->foreign, .used = in->live->used};
}

static void end_batch(struct encoder *e, const struct surroundings *in, const struct batch *b)
{
    struct mt_totals *t = in->totals;
    t->events[MT_LOAD] += b->loads;
    t->events[MT_STORE] += b->stores;
    t->events[MT_MODIFY] += b->modifies;
    t->foreign += b->foreigners;
    e->count += (uint32_t)(b->loads + b->stores + b->modifies);
}

size_t encoder_segments(struct encoder *e, const struct surroundings *in, const uint64_t *stream, size_t n,
                        uint64_t *instructions)
{
    const uint64_t *at = stream, *end = stream + n;
    const uint64_t *stop = n < ENCODE_BATCH ? end : stream + ENCODE_BATCH;
    struct batch b = begin_batch(e, in);
    struct word_state *lines = e->book.lines;
    uint32_t prev = e->prev_line;
    uint64_t run = 0;
    while (at < stop) {
        uint32_t line = lines[prev].next[0];
        bool hit = lines[line].name == *at << 1;
        if (!hit) {
            if (*at >= e->book.segment_count)
                break;
            line = e->book.segments[*at].line;
        }
        struct word_state *first = &lines[line];
        uint32_t words = first->words, taken = 0, live = 0;
        if (words >= (size_t)(end - at))
            break;
        __builtin_prefetch(at + 96);
        b.instructions += instructions_of(first);
        if (hit)
            taken = take_guessed(&b, &e->recent, first, at + 1, words, &live);
        if (taken == words) {
            run += live != 0;
            prev = live ? line : prev;
        } else if (taken || !is_quiet(&b, first, at + 1, words)) {
            e->run += run;
            run = 0;
            e->prev_line = prev;
            code_segment(e, in, (uint32_t)*at, at + 1, taken, live != 0);
            prev = e->prev_line;
            lines = e->book.lines;
        }
        at += 1 + words;
    }
    e->run += run;
    e->prev_line = prev;
    end_batch(e, in, &b);
    *instructions += b.instructions;
    return (size_t)(at - stream);
}

void encoder_accesses(struct encoder *e, const struct surroundings *in, const uint32_t *sites,
                      const uint64_t *addrs, size_t n)
{
    check_foreign(e, in);
    for (size_t i = 0; i < n; i++)
        code_access(e, in, sites[i], addrs[i]);
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
