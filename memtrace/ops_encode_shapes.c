/* ops_encode_shapes.c - executions of shapes to the binary form; see ops_shapes.h.
 *
 * A block ends after exactly OPS_BLOCK operations, so that pieces of a file can be made at the same time: an
 * execution that does not fit into it is written operation by operation.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ops_shapes.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define WORD_LONGEST (2 * UVARINT_MAX_BYTES)

static bool reserve(void *array, uint32_t *room, uint32_t need, size_t size)
{
    void *old, *bigger;
    if (need <= *room)
        return true;
    memcpy(&old, array, sizeof old);
    /* lines are aligned, which realloc does not keep */
    if (posix_memalign(&bigger, 64, 2 * (size_t)need * size))
        return false;
    if (old)
        memcpy(bigger, old, *room * size);
    memset((char *)bigger + *room * size, 0, (2 * (size_t)need - *room) * size);
    free(old);
    memcpy(array, &bigger, sizeof bigger);
    *room = 2 * need;
    return true;
}

bool ops_encoder_begin_shapes(struct ops_encoder *e)
{
    e->epoch = 1;
    e->n_lines = 1;
    return reserve(&e->lines, &e->lines_room, 1, sizeof *e->lines);
}

uint32_t ops_encoder_shape(struct ops_encoder *e, const struct ops_part *parts, unsigned count,
                           unsigned words)
{
    uint32_t line = e->n_lines;
    if (!reserve(&e->lines, &e->lines_room, line + words, sizeof *e->lines) ||
        !reserve(&e->parts, &e->parts_room, e->n_parts + count, sizeof *e->parts))
        return 0;
    e->lines[line].first = e->n_parts;
    e->lines[line].count = (uint8_t)count;
    e->lines[line].words = (uint8_t)words;
    memcpy(e->parts + e->n_parts, parts, count * sizeof *parts);
    e->n_parts += count;
    e->n_lines = line + words;
    return line;
}

static uint8_t *put_token(struct ops_encoder *e, uint8_t *to, enum ops_token kind)
{
    uint32_t run = e->run < TOKEN_RUN_LONG ? e->run : TOKEN_RUN_LONG;
    *to++ = (uint8_t)(OPS_RESERVED | run << 2 | kind);
    if (run == TOKEN_RUN_LONG)
        to = uvarint_write(to, e->run - run);
    e->run = 0;
    return to;
}

void ops_encoder_end_run(struct ops_encoder *e)
{
    e->used = (size_t)(put_token(e, e->raw + e->used, TOKEN_RUN) - e->raw);
}

/* Which of the recent words have a handle, by its low half? Bit i is for recent[i]. */
static uint32_t recent_equal(const struct ops_predictor *p, uint32_t low)
{
    uint32_t bits = 0;
#ifdef __SSE2__
    const __m128i *at = (const __m128i *)p->low, w = _mm_set1_epi32((int)low);
    __m128i all[4];
    for (unsigned i = 0; i < 4; i++)
        all[i] = _mm_cmpeq_epi32(_mm_loadu_si128(&at[i]), w);
    all[0] = _mm_packs_epi16(_mm_packs_epi32(all[0], all[1]), _mm_packs_epi32(all[2], all[3]));
    bits = (uint32_t)_mm_movemask_epi8(all[0]);
#else
    for (unsigned i = 0; i < OPS_RECENT; i++)
        bits |= (uint32_t)(p->low[i] == low) << i;
#endif
    return bits;
}

/* How far back the latest recent word of a block is, 1 .. OPS_RECENT - 1; 0 = there is none. */
static uint32_t find_recent(const struct ops_predictor *p, uint32_t next, uint64_t handle)
{
    uint32_t bits = recent_equal(p, (uint32_t)handle), turn = next % OPS_RECENT;
    if (!bits)
        return 0;
    for (bits = (bits >> turn | bits << (OPS_RECENT - turn)) & 0xfffe; bits;) {
        uint32_t highest = 31 - (uint32_t)__builtin_clz(bits);
        if (shape_recent(p, next, OPS_RECENT - highest).handle == handle)
            return OPS_RECENT - highest;
        bits ^= 1u << highest;
    }
    return 0;
}

/* A word that was not foreseen: its code; what is to be told of it goes to *to. */
static __attribute__((noinline)) enum ops_word_code
code_word(struct ops_line *s, const struct ops_predictor *p, uint32_t next, struct ops_word w, uint8_t **to)
{
    struct ops_word other = shape_guess(s, p, next, true);
    if (other.addr == w.addr && other.handle == w.handle) {
        s->mode ^= SHAPE_FROM_RECENT;
        return SHAPE_OTHER;
    }
    uint32_t far = find_recent(p, next, w.handle);
    if (far) {
        uint64_t distance = w.addr - shape_recent(p, next, far).addr;
        *to = uvarint_write(*to, far);
        *to = uvarint_write(*to, zigzag((int64_t)distance));
        shape_learn_near(s, far, distance);
        return SHAPE_NEAR;
    }
    *to = uvarint_write(*to, zigzag((int64_t)(w.handle - s->handle)));
    *to = uvarint_write(*to, zigzag((int64_t)(w.addr - p->addrs[w.handle % OPS_PREDICTED])));
    return SHAPE_FAR;
}

static uint8_t *put_definition(const struct ops_encoder *e, const struct ops_line *first, uint8_t *to)
{
    const struct ops_part *part = &e->parts[first->first];
    *to++ = first->count;
    *to++ = first->words;
    for (unsigned i = 0; i < first->count; i++, part++) {
        *to++ = (uint8_t)(part->code | part->word << 3);
        to = uvarint_write(to, part->offset);
        to = uvarint_write(to, part->size);
    }
    return to;
}

/* The shape of an execution that was not foreseen. */
static uint8_t *put_name(struct ops_encoder *e, uint32_t line, uint8_t *to)
{
    struct ops_line *first = &e->lines[line], *previous = &e->lines[e->previous];
    if (first->name == 0) {
        first->name = ++e->names;
        to = put_definition(e, first, put_token(e, to, TOKEN_DEFINED));
    } else {
        to = put_token(e, to, TOKEN_NAMED);
        to = uvarint_write(to, previous->next[1] == line ? 0 : first->name);
    }
    shape_learn_next(previous, line);
    return to;
}

/* An execution that was not foreseen, with `n` bytes about its words. */
static __attribute__((noinline)) void put_miss(struct ops_encoder *e, uint32_t line, uint64_t codes,
                                               const uint8_t *words, size_t n)
{
    uint8_t *to = e->raw + e->used;
    if (e->lines[e->previous].next[0] != line)
        to = put_name(e, line, to);
    else
        to = put_token(e, to, TOKEN_WORDS);
    to = uvarint_write(to, codes);
    memcpy(to, words, n);
    e->used = (size_t)(to + n - e->raw);
}

/* The first time in a block. */
static void enter_block(struct ops_encoder *e, struct ops_line *first)
{
    shape_forget(first, e->epoch);
    first->name = 0;
}

/* What changes with each execution. */
struct going {
    uint32_t previous, next, run, count; /* as of the encoder; of ops_put_recent; of the encoder */
};

/* Code the words of an execution as they were foreseen or not; what is told of them ends before *to. */
static inline uint64_t code_words(struct ops_line *first, struct ops_predictor *p, struct going *g,
                                  const struct ops_word *words, uint8_t **to)
{
    uint64_t codes = 0;
    for (uint32_t i = 0; i < first->words; i++) {
        struct ops_word guess = shape_guess(&first[i], p, g->next, false), w = words[i];
        if (__builtin_expect(guess.addr != w.addr || guess.handle != w.handle, 0))
            codes |= (uint64_t)code_word(&first[i], p, g->next, w, to) << i * SHAPE_WORD_BITS;
        shape_learn(&first[i], p, g->next++, w);
    }
    return codes;
}

const struct ops_word *ops_encoder_execute(struct ops_encoder *e, const uint32_t *shapes, size_t n,
                                           const struct ops_word *words)
{
    struct going g = {e->previous, e->predictor.recent_next, e->run, e->count};
    struct ops_line *lines = e->lines;
    for (const uint32_t *end = shapes + n; shapes < end; shapes++) {
        struct ops_line *first = &lines[*shapes];
        uint8_t about[OPS_SHAPE_WORDS * WORD_LONGEST], *to = about;
        if (__builtin_expect(first->epoch != e->epoch, 0))
            enter_block(e, first);
        uint64_t codes = code_words(first, &e->predictor, &g, words, &to);
        g.run++;
        if (__builtin_expect(codes != 0 || lines[g.previous].next[0] != *shapes, 0)) {
            e->run = g.run - 1;
            e->previous = g.previous;
            put_miss(e, *shapes, codes, about, (size_t)(to - about));
            g.run = 0;
        }
        g.previous = *shapes;
        g.count += first->count;
        words += first->words;
    }
    e->previous = g.previous;
    e->predictor.recent_next = g.next;
    e->run = g.run;
    e->count = g.count;
    e->predictor.handle = words[-1].handle;
    return words;
}

unsigned ops_expand(struct op *out, const struct ops_part *parts, unsigned count,
                    const struct ops_word *words)
{
    for (unsigned i = 0; i < count; i++) {
        const struct ops_word *w = &words[parts[i].word];
        out[i] = (struct op){w->handle, w->addr + parts[i].offset, parts[i].size, parts[i].code, 0, 0};
    }
    return count;
}
