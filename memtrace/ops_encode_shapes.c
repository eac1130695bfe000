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

/* How far back the latest recent word of a block is; 0 = there is none. */
static uint32_t find_recent(const struct ops_predictor *p, uint64_t handle)
{
    for (uint32_t far = 1; far < OPS_RECENT; far++)
        if (shape_recent(p, far).handle == handle)
            return far;
    return 0;
}

/* A word that was not foreseen: its code; what is to be told of it goes to *to. */
static __attribute__((noinline)) enum ops_word_code
code_word(struct ops_line *s, const struct ops_predictor *p, struct ops_word w, uint8_t **to)
{
    struct ops_word other = shape_guess(s, p, true);
    uint32_t far;
    if (other.addr == w.addr && other.handle == w.handle) {
        s->mode ^= SHAPE_FROM_RECENT;
        return SHAPE_OTHER;
    }
    far = find_recent(p, w.handle);
    if (far) {
        *to = uvarint_write(*to, far);
        *to = uvarint_write(*to, zigzag((int64_t)(w.addr - shape_recent(p, far).addr)));
        shape_learn_near(s, p, far, w.addr);
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

void ops_encoder_execute(struct ops_encoder *e, uint32_t line, const struct ops_word *words)
{
    struct ops_line *first = &e->lines[line];
    uint8_t about[OPS_SHAPE_WORDS * WORD_LONGEST], *to = about;
    uint64_t codes = 0;
    if (first->epoch != e->epoch)
        enter_block(e, first);
    for (uint32_t i = 0; i < first->words; i++) {
        struct ops_word guess = shape_guess(&first[i], &e->predictor, false), w = words[i];
        if (__builtin_expect(guess.addr != w.addr || guess.handle != w.handle, 0))
            codes |= (uint64_t)code_word(&first[i], &e->predictor, w, &to) << i * SHAPE_WORD_BITS;
        shape_learn(&first[i], &e->predictor, w);
    }
    if (codes == 0 && e->lines[e->previous].next[0] == line)
        e->run++;
    else
        put_miss(e, line, codes, about, (size_t)(to - about));
    e->predictor.handle = words[first->words - 1].handle;
    e->previous = line;
    e->count += first->count;
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
