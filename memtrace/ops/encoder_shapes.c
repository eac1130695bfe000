/* encoder_shapes.c - executions of shapes to the binary form; see shapes.h.
 *
 * A block ends after exactly OPS_BLOCK operations, so that pieces of a file can be made at the same time: an
 * execution that does not fit into it is written operation by operation.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/array.h"
#include "memtrace/ops/shapes.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

bool ops_encoder_begin_shapes(struct ops_encoder *e)
{
    e->epoch = 1;
    e->n_lines = 1;
    if (!array_reserve_aligned(&e->lines, &e->lines_room, 1, sizeof *e->lines))
        return false;
    memset(e->lines, 0, sizeof *e->lines);
    return true;
}

uint32_t ops_encoder_shape(struct ops_encoder *e, const struct ops_part *parts, unsigned count,
                           unsigned words)
{
    uint32_t line = e->n_lines;
    if (!array_reserve_aligned(&e->lines, &e->lines_room, line + words, sizeof *e->lines) ||
        !array_reserve(&e->parts, &e->parts_room, e->n_parts + count, sizeof *e->parts))
        return 0;
    memset(&e->lines[line], 0, words * sizeof *e->lines);
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
    const __m128i a = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_loadu_si128(at), w),
                                      _mm_cmpeq_epi32(_mm_loadu_si128(at + 1), w)),
                  b = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_loadu_si128(at + 2), w),
                                      _mm_cmpeq_epi32(_mm_loadu_si128(at + 3), w));
    bits = (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(a, b));
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

/* A program's numbers are mostly short or mostly not. */
static inline uint8_t *put_far(uint8_t *to, uint64_t v)
{
    if (v >= 0x80)
        return uvarint_write_any(to, v);
    *to = (uint8_t)v;
    return to + 1;
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
    *to = put_far(*to, zigzag((int64_t)(w.handle - s->handle)));
    *to = put_far(*to, zigzag((int64_t)(w.addr - p->addrs[w.handle % OPS_PREDICTED])));
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

/* The first time in a block. */
static void enter_block(struct ops_encoder *e, struct ops_line *first)
{
    shape_forget(first, e->epoch);
    first->name = 0;
}

/* An execution that was not foreseen: its shape, its codes, and what was gathered about its words. */
static __attribute__((noinline)) void put_miss(struct ops_encoder *e, uint32_t line, uint64_t codes)
{
    uint8_t *to = e->raw + e->used;
    size_t n = codes ? (size_t)(e->about_end - e->about) : 0;
    if (e->lines[e->previous].next[0] != line)
        to = put_name(e, line, to);
    else
        to = put_token(e, to, TOKEN_WORDS);
    to = uvarint_write(to, codes);
    memcpy(to, e->about, n);
    e->used = (size_t)(to + n - e->raw);
}

/* What changes with each execution; only inline functions get its address, so that it stays in registers. */
struct going {
    const struct mt_step *step, *counted; /* at hand; the first that e->run does not count */
    const struct mt_place *places;
    struct ops_line *previous; /* as of the encoder */
    uint32_t next;             /* as of ops_put_recent */
};

/* Where to find the words' blocks. */
struct handles {
    const uint64_t *of;
    size_t slots;
};

/* Word `i` was not foreseen: the codes with its own. */
static __attribute__((noinline)) uint64_t miss_word(struct ops_encoder *e, struct ops_line *s, uint32_t next,
                                                    struct ops_word w, uint64_t codes, uint32_t i)
{
    if (codes == 0)
        e->about_end = e->about;
    return codes | (uint64_t)code_word(s, &e->predictor, next, w, &e->about_end) << i * SHAPE_WORD_BITS;
}

/* After `run` executions that were foreseen, one whose shape was not, or a word. */
static __attribute__((noinline)) void miss(struct ops_encoder *e, size_t run, const struct ops_line *previous,
                                           const struct ops_line *line, uint64_t codes)
{
    e->run += (uint32_t)run;
    e->previous = (uint32_t)(previous - e->lines);
    put_miss(e, (uint32_t)(line - e->lines), codes);
}

/* The handle of the block at a slot; false if none lives there. */
static inline bool find_handle(struct handles h, uint32_t slot, uint64_t *handle)
{
    return slot < h.slots && !__builtin_sub_overflow(h.of[slot], 1, handle);
}

/* Execute a shape of n words, which is for the compiler to know where it can; false if one is of no block. */
__attribute__((always_inline)) static inline bool execute(struct ops_encoder *e, struct going *g,
                                                          struct ops_line *first, uint32_t line,
                                                          struct handles h, const struct mt_place *places,
                                                          const uint32_t n)
{
    uint64_t found[OPS_SHAPE_WORDS], codes = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!find_handle(h, places[i].slot, &found[i]))
            return false;
    const bool known = g->previous->next[0] == line;
    if (__builtin_expect(!known && first->epoch != e->epoch, 0))
        enter_block(e, first);
    for (uint32_t i = 0; i < n; i++) {
        struct ops_line *s = &first[i];
        const struct ops_word guess = shape_guess(s, &e->predictor, g->next, false),
                              w = {places[i].addr, found[i]};
        if (__builtin_expect(guess.addr != w.addr || guess.handle != w.handle, 0))
            codes = miss_word(e, s, g->next, w, codes, i);
        shape_learn(s, &e->predictor, g->next++, w);
    }
    if (__builtin_expect(!known || codes, 0)) {
        miss(e, (size_t)(g->step - g->counted), g->previous, first, codes);
        g->counted = g->step + 1;
    }
    g->previous = first;
    return true;
}

/* The words of an execution that are present, where some of its segment's are absent: those, and no others,
 * must be of no block. How many of both; 0 if they are not. */
static __attribute__((noinline)) uint32_t gather_present(struct mt_place *to, const struct mt_place *places,
                                                         uint32_t present, uint32_t absent)
{
    uint32_t n = 0;
    for (; present || absent; n++, absent >>= 1) {
        if ((absent & 1) != (places[n].slot == MT_NO_SLOT))
            return 0;
        if (absent & 1)
            continue;
        *to++ = places[n];
        present--;
    }
    return n;
}

/* The same where all absent ones are behind the present, which stay where they are. */
static inline uint32_t pass_absent(const struct mt_place *places, uint32_t present, uint32_t absent)
{
    const uint32_t n = 32 - (uint32_t)__builtin_clz(absent);
    for (uint32_t i = present; i < n; i++)
        if (places[i].slot != MT_NO_SLOT)
            return 0;
    return n;
}

/* Where the present ones of an execution are, some of whose segment's words are absent, and how many both
 * are; 0 if not these are absent. */
static inline const struct mt_place *find_present(struct mt_place *to, const struct mt_place *places,
                                                  uint32_t present, uint32_t absent, uint32_t *all)
{
    if (absent >> present << present == absent) {
        *all = pass_absent(places, present, absent);
        return places;
    }
    *all = gather_present(to, places, present, absent);
    return to;
}

/* The execution at hand; false if it is none of the shape that its segment had last. */
__attribute__((always_inline)) static inline bool execute_step(struct ops_encoder *e, struct going *g,
                                                               struct ops_line *lines, struct handles h,
                                                               struct ops_shape_of shape,
                                                               struct mt_place *present)
{
    struct ops_line *first = &lines[shape.shape];
    const uint32_t n = first->words;
    const struct mt_place *places = g->places;
    uint32_t all = n;
    if (n == 1 && !shape.absent) {
        g->places++;
        return execute(e, g, first, shape.shape, h, places, 1);
    }
    if (shape.absent) {
        places = find_present(present, places, n, shape.absent, &all);
        if (all == 0)
            return false;
    }
    g->places += all;
    return execute(e, g, first, shape.shape, h, places, n);
}

/* Tell the others how far it has come. */
static inline void end_executions(struct ops_encoder *e, struct ops_executions *x, const struct going *g)
{
    if (g->step > x->step)
        e->predictor.handle = g->previous[g->previous->words - 1].handle;
    e->run += (uint32_t)(g->step - g->counted);
    e->previous = (uint32_t)(g->previous - e->lines);
    e->predictor.recent_next = g->next;
    x->step = g->step;
    x->places = g->places;
}

uint32_t ops_encoder_execute(struct ops_encoder *e, struct ops_executions *x, uint32_t room)
{
    struct going g = {x->step, x->step, x->places, &e->lines[e->previous], e->predictor.recent_next};
    const struct handles h = {x->handles, x->slots};
    const struct ops_shape_of *shapes = x->shapes;
    const struct mt_step *end = x->end;
    const size_t n_shapes = x->n_shapes;
    struct mt_place present[OPS_SHAPE_WORDS];
    struct ops_line *lines = e->lines;
    uint32_t left = room;
    for (; g.step < end; g.step++) {
        const uint32_t segment = g.step->segment, count = g.step->count;
        const struct mt_place *places = g.places;
        if (count > left || segment >= n_shapes || shapes[segment].shape == 0)
            break;
        if (!execute_step(e, &g, lines, h, shapes[segment], present)) {
            g.places = places;
            break;
        }
        left -= count;
    }
    end_executions(e, x, &g);
    return room - left;
}
