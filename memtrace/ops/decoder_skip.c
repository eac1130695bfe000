/* decoder_skip.c - executions of shapes of the binary form, for readers that skip accesses; see shapes.h.
 *
 * Frees, News and Resizes are told relative to the blocks of the words before them, so that executions must
 * be followed; but of a word only its block counts, on which addresses have no bearing: they are neither
 * decoded nor foreseen. Nothing is given, so there is no room to look after, and tokens are taken as many as
 * come.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/ops/shapes.h"

#include <endian.h>
#include <string.h>

/* A number that does not matter: without a branch that depends on how long it is, if it is none of the
 * longest. */
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

/* A word as its mode says. */
static inline void pass_word(struct ops_line *s, struct ops_predictor *p, uint32_t next)
{
    uint64_t near = shape_recent(p, next, s->mode & (OPS_RECENT - 1)).handle;
    s->handle = s->mode & SHAPE_FROM_RECENT ? near : s->handle;
    p->recent_handle[next % OPS_RECENT] = s->handle;
}

/* All executions as foreseen that come next; false if one cannot be. */
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

/* A word by its code; false if that cannot be. */
static inline bool pass_coded(struct ops_decoder *d, struct ops_line *s, enum ops_word_code code)
{
    struct ops_predictor *p = &d->predictor;
    if (code == SHAPE_OTHER)
        s->mode ^= SHAPE_FROM_RECENT;
    if (code == SHAPE_NEAR) {
        const uint64_t far = cursor_uvarint(&d->at);
        skip_uvarint(&d->at);
        if (far - 1 >= OPS_RECENT - 1)
            return false;
        s->mode = (uint8_t)(SHAPE_FROM_RECENT | far);
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

/* The execution that was not as foreseen; false if it cannot be. */
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
