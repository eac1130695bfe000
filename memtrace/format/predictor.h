/* predictor.h - the predictor of accesses, shared by the encoder and the decoder.
 *
 * Accesses are recorded as segments: the accesses of a superblock of the program. A segment computes the addresses of
 * its accesses from one or more words. A word is a base address; its accesses are at constant distances from it, and
 * mostly lie in one block, or in none. A word whose accesses lie in no block is foreign, and its address is not
 * recorded. For other words, the address of the lowest access and its block are encoded. Most programs repeat
 * themselves, so each part is predicted, and only wrong predictions are stored:
 *
 *     segment  the segment that followed the previous one last time; second guess: the time before that
 *     foreign  as the word was the last time
 *     address  one of two, whichever was right when the word's guess was last wrong:
 *              (a) the word's own last address plus its stride: loops over arrays
 *              (b) the address of one of the last RECENT words or new blocks, of any segment, plus a distance:
 *                  fields of an object, the program counter and stack of an interpreter, new objects
 *     block    the block of the address from which the guess was computed
 *
 * A stride changes only when the same difference occurs twice, so that a single jump costs one wrong guess and not two.
 * State is valid in one chunk: the state of a segment is reset when it first runs in a chunk.
 *
 * Writer and reader must call the same functions in the same order. Any change here changes the format
 * (MT_FORMAT_VERSION).
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

/* A token byte is run << 3 | misses: `run` segments that were predicted correctly, followed by one segment with these
 * misses or, if misses is 0, by a rare record. If the run is RUN_LONG or longer, the rest of its length follows as a
 * uvarint in the token stream. */
enum { MISS_SEGMENT = 1, MISS_WORDS = 2, RUN_LONG = 31 };

/* How a word differs from its guess. The codes of a segment's words are one uvarint, three bits per word, the
 * first word in the lowest bits. */
enum word_code {
    WORD_GUESSED, /* as guessed, or foreign, as guessed */
    WORD_OTHER,   /* the other guess is right */
    WORD_BACK,    /* the distance is right, but from another recent word: its age follows */
    WORD_INSIDE,  /* in the guessed block, at another offset: the offset follows */
    WORD_BLOCK,   /* in another block: slot and offset follow */
    WORD_FOREIGN, /* foreign now, but not the last time */
    WORD_AGAIN,   /* not foreign now, but the last time; otherwise as guessed */
    WORD_CODES
};
enum { WORD_BITS = 3, WORD_MASK = 7 };

/* The name of a segment is its id * 2. An access alone is a segment of its own, with the name site id * 2 + 1. */
#define NO_LINE 0u /* the line of "no segment" */

/* The mode of a word: the age of the recent word it refers to (1 = the latest, up to RECENT), and these flags. */
enum { RECENT = 16, MODE_AGE = 0x1f, MODE_BACK = 0x20, MODE_FOREIGN = 0x80 };

/* A name that does not occur in streams. */
#define NO_NAME UINT32_MAX

/* Flag in `words` of all lines of a segment but the first. */
enum { NOT_FIRST = 0x80 };

/* Flag in the epoch of a segment: when it ran last, it accessed no block, so nothing was written. */
#define QUIET 0x80000000u

/* State of one word, in a cache line. The state of the segment is in the line of its first word. */
struct word_state {
    uint64_t addr;   /* address of the lowest access */
    uint64_t stride; /* differences are modulo 2^64 */
    uint64_t delta;  /* last difference, to confirm a stride */
    uint64_t back;   /* distance from the recent word that the mode refers to */
    uint32_t slot;
    int32_t lowest;  /* constant: distance of the lowest access from the word */
    uint32_t counts; /* constant: loads | stores << 8 | modifies << 16 | the segment's instructions << 24 */
    uint16_t span;   /* constant: distance from the lowest access to the highest */
    uint8_t mode;
    /* constant: words of the segment; in other lines than the first, NOT_FIRST + words after this one */
    uint8_t words;
    uint32_t name;    /* id of the segment in the input stream, or NO_NAME */
    uint32_t next[2]; /* lines of segments that followed, latest first */
    uint32_t epoch;   /* chunk in which this state is valid; flag QUIET, used by the encoder only */
} __attribute__((aligned(64)));

/* A ring of the last words that were not foreign and of new or resized blocks. */
struct recent {
    uint64_t addr[RECENT];
    uint32_t low[RECENT]; /* low half of addr, for searches */
    uint32_t slot[RECENT];
    uint32_t next;
};

struct guess {
    uint64_t addr;
    uint32_t slot;
};

/* Store a place as number `next`. The caller increments r->next, which it may keep in a register during a loop. */
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

/* Which of RECENT numbers are equal to v? Bit RECENT - age is set for the number of this age. */
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

/* The smallest age of the numbers in `bits`, which is not 0. */
static inline uint32_t recent_latest(uint32_t bits)
{
    return RECENT - (31 - (uint32_t)__builtin_clz(bits));
}

/* Index in the ring of the place of this age. */
static inline uint32_t recent_at(const struct recent *r, uint32_t age)
{
    return (r->next - age) % RECENT;
}

/* Reset the state of a segment at its first run in a chunk. */
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
                                         uint32_t age)
{
    uint32_t i = (next - age) % RECENT;
    return (struct guess){r->addr[i] + s->back, r->slot[i]};
}

static inline struct guess guess_back(const struct word_state *s, const struct recent *r, uint32_t age)
{
    return guess_back_at(s, r, r->next, age);
}

static inline struct guess guess_word_at(const struct word_state *s, const struct recent *r, uint32_t next)
{
    struct guess own = guess_own(s), back = guess_back_at(s, r, next, s->mode & MODE_AGE);
    return s->mode & MODE_BACK ? back : own;
}

static inline struct guess guess_word(const struct word_state *s, const struct recent *r)
{
    return guess_word_at(s, r, r->next);
}

/* The guess that guess_word does not choose. */
static inline struct guess guess_other(const struct word_state *s, const struct recent *r)
{
    return s->mode & MODE_BACK ? guess_own(s) : guess_back(s, r, s->mode & MODE_AGE);
}

/* Update the prediction of the next segment: `line` followed `prev`. */
static inline void learn_segment(struct word_state *prev, uint32_t line)
{
    prev->next[1] = prev->next[0];
    prev->next[0] = line;
}

/* Update the word's own last address, stride and block. */
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
    uint32_t age = recent_latest(same);
    s->mode = (uint8_t)((s->mode & ~MODE_AGE) | age);
    s->back = addr - r->addr[recent_at(r, age)];
}

/* Is this guess the place of a word? */
static inline bool guess_is(struct guess g, uint64_t addr, uint32_t slot)
{
    return g.addr == addr && g.slot == slot;
}

/* The age of the recent word from which the word's distance leads to a place; 0 = none. */
static inline uint32_t find_back(const struct word_state *s, const struct recent *r, uint64_t addr,
                                 uint32_t slot)
{
    const uint64_t from = addr - s->back;
    for (uint32_t same = recent_equal(r, r->low, (uint32_t)from); same;
         same &= ~(1u << (RECENT - recent_latest(same)))) {
        const uint32_t i = recent_at(r, recent_latest(same));
        if (r->addr[i] == from && r->slot[i] == slot)
            return recent_latest(same);
    }
    return 0;
}

/* The code of a word in a block that was not guessed. `part`: some of its accesses are outside the block, so that no
 * guess of a whole word is right. *age is set for WORD_BACK. */
static inline enum word_code code_of_miss(const struct word_state *s, const struct recent *r, uint64_t addr,
                                          uint32_t slot, bool part, uint32_t *age)
{
    const struct guess g = guess_word(s, r);
    if (!part && s->mode & MODE_FOREIGN && guess_is(g, addr, slot))
        return WORD_AGAIN;
    if (!part && guess_is(guess_other(s, r), addr, slot))
        return WORD_OTHER;
    if (!part && (*age = find_back(s, r, addr, slot)))
        return WORD_BACK;
    return g.slot == slot ? WORD_INSIDE : WORD_BLOCK;
}

/* Update the prediction of a word in a block that was not as guessed. `age` is used for WORD_BACK. */
static inline void learn_miss(struct word_state *s, struct recent *r, enum word_code code, uint32_t age,
                              uint64_t addr, uint32_t slot)
{
    s->mode &= (uint8_t)~MODE_FOREIGN;
    if (code == WORD_OTHER)
        s->mode ^= MODE_BACK;
    else if (code == WORD_BACK)
        s->mode = (uint8_t)(MODE_BACK | age);
    else if (code == WORD_INSIDE || code == WORD_BLOCK)
        learn_back(s, r, addr, slot);
    learn_word(s, r, addr, slot);
}

#endif
