/* encoder_miss.h - the general case of encoder.c: segments of which something was not expected.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_ENCODER_MISS_H
#define MEMTRACE_WRITE_ENCODER_MISS_H

#include "memtrace/stream.h"
#include "memtrace/write/encoder.h"

/* Loads, stores, modifies and instructions. */
typedef uint32_t tally __attribute__((vector_size(16)));

/* Of a word's counts, or the sum of some words' of a segment: no part of it is more than a byte. */
static inline tally tally_of(uint32_t c)
{
#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128(), bytes = _mm_cvtsi32_si128((int)c);
    return (tally)_mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero);
#else
    return (tally){c & 0xff, c >> 8 & 0xff, c >> 16 & 0xff, c >> 24};
#endif
}

/* Segments that are coded in one go, while no block comes or goes. */
struct batch {
    const struct block *blocks;
    tally live, outside; /* of words in blocks, and of foreign ones */
    const struct mt_between *between;
    uint64_t began; /* instructions of segments before */
};

/* The words of a segment: as they are in a stream, or gathered, one in 8 bytes. */
struct words {
    const uint8_t *first;
    uint32_t apart; /* bytes */
};

static inline struct words words_of(const uint8_t *segment)
{
    return (struct words){segment + MT_STREAM_ID, MT_STREAM_WORD};
}

static inline struct words words_gathered(const uint64_t *words)
{
    return (struct words){(const uint8_t *)words, sizeof *words};
}

static inline uint64_t word_at(struct words w, uint32_t i)
{
    const uint8_t *at = w.first + (size_t)i * w.apart;
    return w.apart == MT_STREAM_WORD ? mt_stream_word(at) : *(const mt_stream_whole *)at;
}

/* A segment of which something is not as guessed. */
struct missed {
    struct words words;
    uint32_t line;
    uint32_t taken; /* words that were as guessed, before the first that was not */
    bool live;      /* some of them are not foreign */
};

/* Find out what the other words are to, code the segment if one is to a block, and count it. */
void code_segment(struct encoder *e, const struct surroundings *in, struct batch *b, const struct missed *m);
/* Code a segment all whose words were as guessed, but which was not guessed itself. */
void code_taken(struct encoder *e, const struct surroundings *in, const struct missed *m);
/* The same of one access that stands alone. */
void code_access(struct encoder *e, const struct surroundings *in, uint32_t site, uint64_t addr);

/* Write the token that ends the run of hits. */
void put_token(struct encoder *e, unsigned misses);

/* Forget the foreign pages if blocks may have come to lie there. */
void check_foreign(struct encoder *e, const struct surroundings *in);

static inline bool foreign_page(const uint64_t *pages, uint64_t addr)
{
    return pages[addr >> PAGE_BITS & (FOREIGN_PAGES - 1)] == (addr >> PAGE_BITS) + 1;
}

/* Is the whole word in pages known to be foreign? */
static inline bool is_foreign(const struct encoder *e, const struct word_state *s, uint64_t lowest)
{
    return foreign_page(e->foreign, lowest) && foreign_page(e->foreign, lowest + s->span);
}

/* Does a word lie in this block with all its accesses? */
static inline bool is_inside(const struct block *block, const struct word_state *s, uint64_t lowest)
{
    const uint64_t highest = lowest - block->base + s->span;
    return __builtin_expect(highest < block->size && highest >= s->span, 1);
}

/* Is a word in the guessed place, and that in a block? The place first: if it is wrong, that is known without
 * waiting for the block. */
static inline bool is_guessed(const struct block *blocks, const struct word_state *s, uint64_t lowest,
                              struct guess g)
{
    return lowest == g.addr && is_inside(&blocks[g.slot], s, lowest);
}

/* Take a word if it is as guessed; *live: it is not foreign. */
static inline bool take_word(struct encoder *e, struct batch *b, struct word_state *s, uint64_t value,
                             bool *live)
{
    uint64_t lowest = value + (uint64_t)(int64_t)s->lowest;
    if (s->mode & MODE_FOREIGN) {
        if (!is_foreign(e, s, lowest))
            return false;
        b->outside += tally_of(s->counts);
        return true;
    }
    struct guess g = guess_word(s, &e->recent);
    if (!is_guessed(b->blocks, s, lowest, g))
        return false;
    learn_word(s, &e->recent, lowest, g.slot);
    b->live += tally_of(s->counts);
    *live = true;
    return true;
}

#endif
