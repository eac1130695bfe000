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
    uint64_t loads, stores, modifies, foreigners, instructions;
};

static inline void count_live(struct batch *b, uint32_t counts)
{
    b->loads += counts & 0xff;
    b->stores += counts >> 8 & 0xff;
    b->modifies += counts >> 16 & 0xff;
}

#define AHEAD 512
/* Is the whole word in pages known to be foreign? */
static inline bool is_foreign(const struct batch *b, const struct word_state *s, uint64_t lowest)
{
    return foreign_page(b->foreign, lowest) && foreign_page(b->foreign, lowest + s->span);
}

/* Where the stream is: in the segment that begins at `at`, whose state is at `line`. */
struct place {
    const uint64_t *at;
    uint32_t line, prev; /* and that of the segment before */
    uint32_t taken;      /* words of this segment that were as guessed */
    uint32_t live;       /* those that are not foreign */
};

/* Take what is as guessed, word by word, over the borders of segments; up to `stop`, behind which there is a
 * whole segment's room. p->at is left at the segment in which something was not as guessed. */
static uint64_t take_guessed(struct encoder *e, struct batch *b, struct place *p, const uint64_t *stop)
{
    struct word_state *lines = e->book.lines, *s = &lines[p->line];
    struct recent *recent = &e->recent;
    const uint64_t *at = p->at;
    uint64_t run = 0;
    while (at < stop) {
        __builtin_prefetch(at + AHEAD);
        uint64_t first = s->words < NOT_FIRST, more = (s->words & (NOT_FIRST - 1)) - first;
        if (((at[0] << 1) ^ s->name) & -first)
            break;
        uint64_t lowest = at[first] + (uint64_t)(int64_t)s->lowest;
        struct guess g = guess_word(s, recent);
        if (s->mode & MODE_FOREIGN) {
            if (!is_foreign(b, s, lowest))
                break;
            b->foreigners += accesses_of(s);
        } else if (is_guessed(b->blocks, s, lowest, g)) {
            learn_word(s, recent, lowest, g.slot);
            count_live(b, s->counts);
            p->live++;
        } else {
            break;
        }
        at += 1 + first;
        p->taken++;
        if (more) {
            s++;
            continue;
        }
        b->instructions += instructions_of(&lines[p->line]);
        run += p->live != 0;
        p->prev = p->live ? p->line : p->prev;
        *p = (struct place){.at = at, .line = lines[p->prev].next[0], .prev = p->prev};
        s = &lines[p->line];
    }
    return run;
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
    return (struct batch){.blocks = in->live->blocks, .foreign = e->foreign};
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

/* The segment at p, in which something was not as guessed; false if there is none. */
static bool take_segment(struct encoder *e, const struct surroundings *in, struct batch *b, struct place *p,
                         const uint64_t *end)
{
    uint64_t id = *p->at;
    if (id >= e->book.segment_count)
        return false;
    uint32_t line = e->book.segments[id].line;
    const struct word_state *first = &e->book.lines[line];
    uint32_t words = first->words;
    if (words >= (size_t)(end - p->at))
        return false;
    b->instructions += instructions_of(first);
    e->prev_line = p->prev;
    if (p->taken || !is_quiet(b, first, p->at + 1, words))
        code_segment(e, in, (uint32_t)id, p->at + 1, p->taken, p->live != 0);
    *p = (struct place){
        .at = p->at + 1 + words, .line = e->book.lines[e->prev_line].next[0], .prev = e->prev_line};
    return true;
}

size_t encoder_segments(struct encoder *e, const struct surroundings *in, const uint64_t *stream, size_t n,
                        uint64_t *instructions)
{
    const uint64_t *end = stream + n, *stop = n < ENCODE_BATCH ? end : stream + ENCODE_BATCH;
    const uint64_t *room = end - stream > 1 + MT_SEGMENT_WORDS ? end - 1 - MT_SEGMENT_WORDS : stream;
    struct batch b = begin_batch(e, in);
    struct place p = {.at = stream, .line = e->book.lines[e->prev_line].next[0], .prev = e->prev_line};
    while (p.at < stop) {
        e->run += take_guessed(e, &b, &p, stop < room ? stop : room);
        if (p.at < stop && !take_segment(e, in, &b, &p, end))
            break;
    }
    e->prev_line = p.prev;
    end_batch(e, in, &b);
    *instructions += b.instructions;
    return (size_t)(p.at - stream);
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
