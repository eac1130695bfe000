/* predictor.h - the predictor that both ends of the access coding share.
 *
 * Accesses come in segments: what a superblock of the program does to memory. A segment computes the
 * addresses of its accesses from one or more words. A word is a base address; its accesses are at constant
 * distances from it, and mostly lie in one block, or in none. A word whose accesses lie in no block is foreign
 * and has no address here. Of the others, the address of the lowest access and its block are coded. Most
 * programs repeat themselves, so each part is guessed, and only wrong guesses are stored:
 *
 *     segment  the segment that followed the previous one last time; second guess: the time before that
 *     foreign  as the word was the last time
 *     address  one of two, whichever was right when the word's guess was last wrong:
 *              (a) the word's own last address plus its stride: loops over arrays
 *              (b) the address of one of the last RECENT words or new blocks, of any segment, plus a distance:
 *                  fields of an object, the program counter and stack of an interpreter, new objects
 *     block    that of the address guessed from
 *
 * A stride changes only when the same difference comes twice, so that a single jump costs one miss, not two.
 * State is per chunk: a segment is cold until it first runs in the chunk.
 *
 * Writer and reader must call the same functions in the same order; changing anything here changes the
 * format (MT_FORMAT_VERSION).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_FORMAT_PREDICTOR_H
#define MEMTRACE_FORMAT_PREDICTOR_H

#include <stdbool.h>
#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* A token byte is run << 3 | misses: `run` segments guessed right, then one with these misses, or, when
 * there are none, a rare record. A run of RUN_LONG or more continues as a uvarint in the token stream. */
enum { MISS_SEGMENT = 1, MISS_WORDS = 2, RUN_LONG = 31 };

/* How a word differs from the guess: three bits, the first word's lowest, in one uvarint a segment. */
enum word_code {
    WORD_GUESSED, /* it does not; or: it is foreign, as guessed */
    WORD_OTHER,   /* the guess that was not made is right */
    WORD_BACK,    /* the distance is right, from another of the recent words; the next number says which */
    WORD_INSIDE,  /* in the guessed block, at another offset: that */
    WORD_BLOCK,   /* in another block: slot and offset */
    WORD_FOREIGN, /* it is foreign, and was not the last time */
    WORD_AGAIN,   /* it is not foreign, and was the last time: else as guessed */
    WORD_CODES
};
enum { WORD_BITS = 3, WORD_MASK = 7 };

/* A segment is named by its id * 2, a site that stands alone as a segment by the site's id * 2 + 1. */
#define NO_LINE 0u /* the line that stands for "no segment" */

/* mode of a word: how far back it refers, 1 .. RECENT, and these */
enum { RECENT = 16, MODE_FAR = 0x1f, MODE_BACK = 0x20, MODE_FOREIGN = 0x80 };

/* A line that is never met in a stream. */
#define NO_NAME UINT32_MAX

/* In `words` of a line that is not its segment's first. */
enum { NOT_FIRST = 0x80 };

/* In a segment's epoch: the last time it ran it touched no block, so nothing was written. */
#define QUIET 0x80000000u

/* State of one word, in a cache line. What belongs to the segment stands in its first word's line. */
struct word_state {
    uint64_t addr;   /* of the lowest access */
    uint64_t stride; /* differences are modulo 2^64 */
    uint64_t delta;  /* last difference, to confirm a stride */
    uint64_t back;   /* distance from the recent word it refers to */
    uint32_t slot;
    int32_t lowest;  /* constant: distance of the lowest access from the word */
    uint32_t counts; /* constant: loads | stores << 8 | modifies << 16 | the segment's instructions << 24 */
    uint16_t span;   /* constant: from the lowest access to the highest */
    uint8_t mode;
    uint8_t words; /* constant: of the segment; in others than its first, NOT_FIRST + the words behind it */
    uint32_t name; /* id of the segment in the input stream, or NO_NAME */
    uint32_t next[2]; /* lines of segments that followed, latest first */
    uint32_t epoch;   /* chunk in which this state is valid; the encoder's own: QUIET */
} __attribute__((aligned(64)));

/* The last words that were not foreign, and new or resized blocks: a ring. */
struct recent {
    uint64_t addr[RECENT];
    uint32_t low[RECENT]; /* of addr, for searches */
    uint32_t slot[RECENT];
    uint32_t next;
};

struct guess {
    uint64_t addr;
    uint32_t slot;
};

/* `next`: r->next, by itself for who keeps it in a register through a loop. */
static inline void recent_put(struct recent *r, uint32_t next, uint64_t addr, uint32_t slot)
{
    uint32_t i = next % RECENT;
    r->addr[i] = addr;
    r->low[i] = (uint32_t)addr;
    r->slot[i] = slot;
}

static inline void recent_add(struct recent *r, uint64_t addr, uint32_t slot)
{
    recent_put(r, r->next++, addr, slot);
}

/* Which of RECENT numbers are equal to v? Bit RECENT - far is for the one that came `far` before the next. */
static inline uint32_t recent_equal(const struct recent *r, const uint32_t *numbers, uint32_t v)
{
    uint32_t bits = 0, turn = r->next % RECENT;
#ifdef __SSE2__
    const __m128i *p = (const __m128i *)numbers, w = _mm_set1_epi32((int)v);
    for (unsigned i = 0; i < RECENT; i += 8) {
        __m128i low = _mm_cmpeq_epi32(_mm_loadu_si128(p++), w),
                high = _mm_cmpeq_epi32(_mm_loadu_si128(p++), w);
        bits |= (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128()))
                << i;
    }
#else
    for (unsigned i = 0; i < RECENT; i++)
        bits |= (uint32_t)(numbers[i] == v) << i;
#endif
    return (bits >> turn | bits << (RECENT - turn)) & ((1u << RECENT) - 1);
}

/* How far back the latest of such numbers is; bits != 0. */
static inline uint32_t recent_latest(uint32_t bits)
{
    return RECENT - (31 - (uint32_t)__builtin_clz(bits));
}

/* Where in the ring is what came `far` before the next? */
static inline uint32_t recent_at(const struct recent *r, uint32_t far)
{
    return (r->next - far) % RECENT;
}

/* Make a segment cold, and give it this chunk. */
static inline void segment_reset(struct word_state *first, uint32_t epoch)
{
    for (uint32_t i = 0; i < first->words || i == 0; i++) {
        struct word_state *s = &first[i];
        s->addr = s->stride = s->delta = s->back = 0;
        s->slot = 0;
        s->mode = MODE_BACK | 1;
    }
    first->next[0] = first->next[1] = NO_LINE;
    first->epoch = epoch;
}

static inline struct guess guess_own(const struct word_state *s)
{
    return (struct guess){s->addr + s->stride, s->slot};
}

static inline struct guess guess_back_at(const struct word_state *s, const struct recent *r, uint32_t next,
                                         uint32_t far)
{
    uint32_t i = (next - far) % RECENT;
    return (struct guess){r->addr[i] + s->back, r->slot[i]};
}

static inline struct guess guess_back(const struct word_state *s, const struct recent *r, uint32_t far)
{
    return guess_back_at(s, r, r->next, far);
}

static inline struct guess guess_word_at(const struct word_state *s, const struct recent *r, uint32_t next)
{
    struct guess own = guess_own(s), back = guess_back_at(s, r, next, s->mode & MODE_FAR);
    return s->mode & MODE_BACK ? back : own;
}

static inline struct guess guess_word(const struct word_state *s, const struct recent *r)
{
    return guess_word_at(s, r, r->next);
}

/* The guess that is not made. */
static inline struct guess guess_other(const struct word_state *s, const struct recent *r)
{
    return s->mode & MODE_BACK ? guess_own(s) : guess_back(s, r, s->mode & MODE_FAR);
}

/* Learn from a segment: `line` followed `prev`. */
static inline void learn_segment(struct word_state *prev, uint32_t line)
{
    prev->next[1] = prev->next[0];
    prev->next[0] = line;
}

/* Learn where a word was. */
static inline void learn_own(struct word_state *s, uint64_t addr, uint32_t slot)
{
    uint64_t delta = addr - s->addr;
    s->stride = delta == s->delta ? delta : s->stride;
    s->delta = delta;
    s->addr = addr;
    s->slot = slot;
}

static inline void learn_word(struct word_state *s, struct recent *r, uint64_t addr, uint32_t slot)
{
    learn_own(s, addr, slot);
    recent_add(r, addr, slot);
}

/* No guess was right: refer to the latest recent word in the same block, if there is one. */
static inline void learn_back(struct word_state *s, const struct recent *r, uint64_t addr, uint32_t slot)
{
    uint32_t same = recent_equal(r, r->slot, slot);
    if (!same)
        return;
    uint32_t far = recent_latest(same);
    s->mode = (uint8_t)((s->mode & ~MODE_FAR) | far);
    s->back = addr - r->addr[recent_at(r, far)];
}

/* A word was not as guessed: learn how, before learn_word. `far`: of WORD_BACK. */
static inline void learn_miss(struct word_state *s, const struct recent *r, enum word_code code, uint32_t far,
                              uint64_t addr, uint32_t slot)
{
    s->mode &= (uint8_t)~MODE_FOREIGN;
    if (code == WORD_OTHER)
        s->mode ^= MODE_BACK;
    else if (code == WORD_BACK)
        s->mode = (uint8_t)(MODE_BACK | far);
    else if (code == WORD_INSIDE || code == WORD_BLOCK)
        learn_back(s, r, addr, slot);
}

#endif
