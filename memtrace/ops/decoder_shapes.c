/* decoder_shapes.c - decodes operations from executions of shapes in the binary form.
 *
 * Everything in a token is checked before it is used. A shape has no more words than parts, and each shape is
 * executed where it is defined, so the shapes of a block need no more memory than its operations.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/ops/shapes.h"

#include <stdlib.h>
#include <string.h>

void ops_shapes_begin_block(struct ops_shapes *s)
{
    s->n_lines = 1;
    s->n_parts = s->names = 0;
    s->previous = 0;
    s->run = 0;
    s->after = TOKEN_RUN;
    memset(&s->lines[0], 0, sizeof s->lines[0]);
}

bool ops_shapes_init(struct ops_shapes *s)
{
    void *lines;
    if (posix_memalign(&lines, 64, (OPS_BLOCK + 1) * sizeof *s->lines))
        return false;
    s->lines = lines;
    s->parts = malloc(OPS_BLOCK * sizeof *s->parts);
    s->line_of = malloc((OPS_BLOCK + 1) * sizeof *s->line_of);
    return s->parts && s->line_of;
}

void ops_shapes_free(struct ops_shapes *s)
{
    free(s->lines);
    free(s->parts);
    free(s->line_of);
}

static bool take_part(struct ops_decoder *d, struct ops_part *part, unsigned words)
{
    uint8_t byte = cursor_byte(&d->at);
    uint64_t offset = cursor_uvarint(&d->at), size = cursor_uvarint(&d->at);
    *part = (struct ops_part){(uint32_t)size, (uint16_t)offset, byte & 7, byte >> 3};
    return byte >> 3 < words && ops_allowed(d->kind, byte & 7) && (byte & 7) >= OP_LOAD &&
           (byte & 7) <= OP_MODIFY && offset <= UINT16_MAX && size <= UINT32_MAX;
}

/* Define a shape and return its line; 0 after an error. */
static uint32_t take_definition(struct ops_decoder *d)
{
    struct ops_shapes *s = &d->shapes;
    uint32_t line = s->n_lines;
    unsigned count = cursor_byte(&d->at), words = cursor_byte(&d->at);
    if (count > OPS_SHAPE_MOST || words > OPS_SHAPE_WORDS || words == 0 || words > count || count > d->left ||
        s->n_parts + count > OPS_BLOCK)
        return 0;
    for (unsigned i = 0; i < count; i++)
        if (!take_part(d, &s->parts[s->n_parts + i], words))
            return 0;
    s->lines[line].first = s->n_parts;
    s->lines[line].count = (uint8_t)count;
    s->lines[line].words = (uint8_t)words;
    shape_forget(&s->lines[line], 0);
    s->n_lines += words;
    s->n_parts += count;
    s->line_of[++s->names] = line;
    return line;
}

uint32_t ops_take_line(struct ops_decoder *d, enum ops_token kind)
{
    struct ops_shapes *s = &d->shapes;
    struct ops_line *previous = &s->lines[s->previous];
    uint32_t line = previous->next[0];
    if (kind == TOKEN_DEFINED)
        line = take_definition(d);
    if (kind == TOKEN_NAMED) {
        uint64_t name = cursor_uvarint(&d->at);
        line = name == 0 ? previous->next[1] : name <= s->names ? s->line_of[name] : 0;
    }
    if (kind != TOKEN_WORDS && line)
        shape_learn_next(previous, line);
    return line;
}

/* Decode a word by its code; false if it is invalid. */
static bool take_word(struct ops_decoder *d, struct ops_line *s, enum ops_word_code code, struct ops_word *w)
{
    struct ops_predictor *p = &d->predictor;
    *w = shape_guess(s, p, p->recent_next, code == SHAPE_OTHER);
    if (code == SHAPE_OTHER)
        s->mode ^= SHAPE_FROM_RECENT;
    if (code == SHAPE_NEAR) {
        uint64_t age = cursor_uvarint(&d->at);
        if (age - 1 >= OPS_RECENT - 1)
            return false;
        uint64_t distance = (uint64_t)unzigzag(cursor_uvarint(&d->at));
        *w = shape_recent(p, p->recent_next, (uint32_t)age);
        w->addr += distance;
        shape_learn_near(s, (uint32_t)age, distance);
    }
    if (code == SHAPE_FAR) {
        w->handle = s->handle + (uint64_t)unzigzag(cursor_uvarint(&d->at));
        w->addr = p->addrs[w->handle % OPS_PREDICTED] + (uint64_t)unzigzag(cursor_uvarint(&d->at));
    }
    shape_learn(s, p, p->recent_next++, *w);
    return true;
}

/* Make the operations of an execution, and return the end of them. */
static inline struct op *give(const struct ops_decoder *d, const struct ops_line *first,
                              const struct ops_word *words, struct op *out)
{
    const struct ops_part *part = &d->shapes.parts[first->first];
    for (const struct op *end = out + first->count; out < end; out++, part++) {
        const struct ops_word *w = &words[part->word];
        *out = (struct op){w->handle, w->addr + part->offset, part->size, part->code, 0, 0};
    }
    return out;
}

/* Execute the shape at this line, with words by their codes. Returns the end of its operations, or NULL after an
 * error. */
static struct op *execute(struct ops_decoder *d, uint32_t line, uint64_t codes, struct op *out)
{
    struct ops_line *first = &d->shapes.lines[line];
    struct ops_word words[OPS_SHAPE_WORDS];
    if (first->count > d->left || codes >> first->words * SHAPE_WORD_BITS)
        return NULL;
    for (unsigned i = 0; i < first->words; i++, codes >>= SHAPE_WORD_BITS)
        if (!take_word(d, &first[i], codes & ((1 << SHAPE_WORD_BITS) - 1), &words[i]))
            return NULL;
    d->predictor.handle = words[first->words - 1].handle;
    d->shapes.previous = line;
    d->left -= first->count;
    return give(d, first, words, out);
}

/* Decode a run of executions that are as predicted; see ops_take_executions. */
static struct op *take_run(struct ops_decoder *d, struct op *out, const struct op *end)
{
    struct ops_shapes *s = &d->shapes;
    struct ops_word words[OPS_SHAPE_WORDS];
    uint32_t line = s->previous, next = d->predictor.recent_next, left = d->left, run = s->run;
    const struct ops_line *first = NULL;
    for (; run && end - out >= OPS_SHAPE_MOST; run--) {
        line = s->lines[line].next[0];
        first = &s->lines[line];
        if (line == 0 || first->count > left)
            return NULL;
        for (uint32_t i = 0; i < first->words; i++) {
            words[i] = shape_guess(&s->lines[line + i], &d->predictor, next, false);
            shape_learn(&s->lines[line + i], &d->predictor, next++, words[i]);
        }
        left -= first->count;
        out = give(d, first, words, out);
    }
    d->predictor.handle = words[first->words - 1].handle;
    d->predictor.recent_next = next;
    d->left = left;
    s->previous = line;
    s->run = run;
    return out;
}

bool ops_take_token(struct ops_decoder *d)
{
    const uint8_t byte = *d->at.p++;
    uint64_t more = 0;
    uint32_t run = byte >> 2 & TOKEN_RUN_LONG;
    if (run == TOKEN_RUN_LONG)
        more = cursor_uvarint(&d->at);
    if (more > d->left)
        return false;
    d->shapes.run = run + (uint32_t)more;
    d->shapes.after = byte & 3;
    return d->shapes.run || d->shapes.after != TOKEN_RUN;
}

struct op *ops_take_executions(struct ops_decoder *d, struct op *out, const struct op *end)
{
    struct ops_shapes *s = &d->shapes;
    if (s->run)
        return take_run(d, out, end);
    enum ops_token kind = s->after;
    uint32_t line = ops_take_line(d, kind);
    s->after = TOKEN_RUN;
    return line ? execute(d, line, cursor_uvarint(&d->at), out) : NULL;
}
