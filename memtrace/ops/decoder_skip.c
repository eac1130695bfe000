/* decoder_skip.c - decodes executions of shapes without making operations, for readers that skip accesses.
 *
 * The handles of Frees, News and Resizes are encoded relative to the blocks of the words before them, so executions
 * must be decoded. But only the block of a word matters for this, and it does not depend on addresses, so addresses
 * are neither decoded nor predicted. No operations are made, so no room for them has to be reserved, and all tokens
 * that follow one another are decoded in one loop.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/ops/shapes.h"

#include <endian.h>
#include <string.h>

/* Skip a number, without a branch on its length if it has at most eight bytes. */
static inline void skip_uvarint(struct cursor *c)
{
    uint64_t bytes, ends = 0;
    if (c->end - c->p >= (ptrdiff_t)sizeof bytes) {
        memcpy(&bytes, c->p, sizeof bytes);
        ends = ~le64toh(bytes) & UINT64_C(0x8080808080808080);
    }
    if (ends == 0)
        cursor_uvarint(c);
    else
        c->p += __builtin_ctzll(ends) / 8 + 1;
}

/* Process a word that is as predicted. */
static inline void pass_word(struct ops_line *s, struct ops_predictor *p, uint32_t next)
{
    uint64_t near = shape_recent(p, next, s->mode & (OPS_RECENT - 1)).handle;
    s->handle = s->mode & SHAPE_FROM_RECENT ? near : s->handle;
    p->recent_handle[next % OPS_RECENT] = s->handle;
}

/* Process the run of executions that are as predicted; false if one is invalid. */
static inline bool pass_run(struct ops_decoder *d, uint64_t run)
{
    struct ops_shapes *s = &d->shapes;
    struct ops_line *lines = s->lines, *first = &lines[s->previous];
    uint32_t next = d->predictor.recent_next, left = d->left;
    for (; run; run--) {
        uint32_t line = first->next[0];
        first = &lines[line];
        if (line == 0 || first->count > left)
            return false;
        for (uint32_t i = 0; i < first->words; i++)
            pass_word(&first[i], &d->predictor, next++);
        left -= first->count;
    }
    d->predictor.recent_next = next;
    d->left = left;
    s->previous = (uint32_t)(first - lines);
    return true;
}

/* Process a word by its code; false if it is invalid. */
static inline bool pass_coded(struct ops_decoder *d, struct ops_line *s, enum ops_word_code code)
{
    struct ops_predictor *p = &d->predictor;
    if (code == SHAPE_OTHER)
        s->mode ^= SHAPE_FROM_RECENT;
    if (code == SHAPE_NEAR) {
        const uint64_t age = cursor_uvarint(&d->at);
        skip_uvarint(&d->at);
        if (age - 1 >= OPS_RECENT - 1)
            return false;
        s->mode = (uint8_t)(SHAPE_FROM_RECENT | age);
    }
    if (code == SHAPE_FAR) {
        s->handle += (uint64_t)unzigzag(cursor_uvarint(&d->at));
        skip_uvarint(&d->at);
        p->recent_handle[p->recent_next++ % OPS_RECENT] = s->handle;
        return true;
    }
    pass_word(s, p, p->recent_next++);
    return true;
}

/* Process an execution that is not as predicted; false if it is invalid. */
static inline bool pass_miss(struct ops_decoder *d, enum ops_token kind)
{
    const uint32_t line = ops_take_line(d, kind);
    struct ops_line *first = &d->shapes.lines[line];
    uint64_t codes = cursor_uvarint(&d->at);
    if (line == 0 || first->count > d->left || codes >> first->words * SHAPE_WORD_BITS)
        return false;
    for (unsigned i = 0; i < first->words; i++, codes >>= SHAPE_WORD_BITS)
        if (!pass_coded(d, &first[i], codes & ((1 << SHAPE_WORD_BITS) - 1)))
            return false;
    d->left -= first->count;
    d->shapes.previous = line;
    return true;
}

static inline bool pass_token(struct ops_decoder *d, uint8_t byte)
{
    const enum ops_token kind = byte & 3;
    uint64_t run = byte >> 2 & TOKEN_RUN_LONG;
    if (run == TOKEN_RUN_LONG)
        run += cursor_uvarint(&d->at);
    if ((run == 0 && kind == TOKEN_RUN) || !pass_run(d, run))
        return false;
    return kind == TOKEN_RUN || pass_miss(d, kind);
}

bool ops_pass_tokens(struct ops_decoder *d)
{
    const struct ops_line *last;
    while (ops_at_token(d))
        if (!pass_token(d, *d->at.p++))
            return false;
    last = &d->shapes.lines[d->shapes.previous];
    d->predictor.handle = last[last->words - 1].handle;
    return true;
}
