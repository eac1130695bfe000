/* encoder_miss.h - encodes segments that were not predicted correctly: the general case of encoder.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_ENCODER_MISS_H
#define MEMTRACE_WRITE_ENCODER_MISS_H

#include "memtrace/stream.h"
#include "memtrace/write/encoder.h"

/* Counts of loads, stores, modifies and instructions. */
typedef uint32_t tally __attribute__((vector_size(16)));

/* Unpack the counts of a word, or the sum of the counts of several words of a segment; each fits in a byte. */
static inline tally tally_of(uint32_t c)
{
#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128(), bytes = _mm_cvtsi32_si128((int)c);
    return (tally)_mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero);
#else
    return (tally){c & 0xff, c >> 8 & 0xff, c >> 16 & 0xff, c >> 24};
#endif
}

/* State of encoding several segments, while no block is allocated or freed. */
struct batch {
    const struct block *blocks;
    tally live, outside; /* counts of words in blocks, and of words in none */
    const struct mt_between *between;
    uint64_t began; /* instructions executed before the batch */
};

/* The words of a segment: as they are in a stream, or gathered, in 8 bytes each. */
struct words {
    const uint8_t *first;
    uint32_t apart; /* distance between two words in bytes */
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

/* A segment that was not predicted correctly. */
struct missed {
    struct words words;
    uint32_t line;
    uint32_t taken; /* number of words before the first that was not as predicted */
    bool live;      /* at least one of these words is in a block */
};

/* Find the blocks of the other words, encode the segment if at least one word is in a block, and count its
 * accesses. */
void code_segment(struct encoder *e, const struct surroundings *in, struct batch *b, const struct missed *m);
/* Encode a segment whose words are all as predicted, although the segment itself was not. */
void code_taken(struct encoder *e, const struct surroundings *in, const struct missed *m);
/* Encode a single access. */
void code_access(struct encoder *e, const struct surroundings *in, uint32_t site, uint64_t addr);

/* Write the token that ends a run of correct predictions. */
void put_token(struct encoder *e, unsigned misses);

/* Clear the cache of pages without blocks if blocks may have been allocated in them. */
void check_foreign(struct encoder *e, const struct surroundings *in);

static inline bool foreign_page(const uint64_t *pages, uint64_t addr)
{
    return pages[addr >> PAGE_BITS & (FOREIGN_PAGES - 1)] == (addr >> PAGE_BITS) + 1;
}

/* Is the whole word in pages that are known to contain no block? */
static inline bool is_foreign(const struct encoder *e, const struct word_state *s, uint64_t lowest)
{
    return foreign_page(e->foreign, lowest) && foreign_page(e->foreign, lowest + s->span);
}

/* Are all accesses of a word in this block? */
static inline bool is_inside(const struct block *block, const struct word_state *s, uint64_t lowest)
{
    const uint64_t highest = lowest - block->base + s->span;
    return __builtin_expect(highest < block->size && highest >= s->span, 1);
}

/* Is a word at the predicted place, and is that place in a block? The address is compared first, because a wrong
 * one is then known without waiting for the load of the block. */
static inline bool is_guessed(const struct block *blocks, const struct word_state *s, uint64_t lowest,
                              struct guess g)
{
    return lowest == g.addr && is_inside(&blocks[g.slot], s, lowest);
}

/* Process a word if it is as predicted. Sets *live if it is in a block. */
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
