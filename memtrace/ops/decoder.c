/* decoder.c - decodes operations from the binary form.
 *
 * Everything in a file is checked, because it may be malicious: sizes before memory is allocated, the hash before
 * decompression, codes against the kind of the file, and that the operations use up a block exactly.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/ops/binary.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

bool ops_binary_here(struct input *in)
{
    return input_need(in, OPS_MAGIC_SIZE) >= OPS_MAGIC_SIZE &&
           memcmp(input_bytes(in), OPS_MAGIC, OPS_MAGIC_SIZE - 1) == 0;
}

static bool corrupt(struct input *in, struct mt_error *err, const char *what)
{
    mt_fail(err, MT_E_CORRUPT, in->offset, "damaged ops file at offset %llu: %s; make it again",
            (unsigned long long)in->offset, what);
    return false;
}

/* Report that the input ends within a part of the file. */
static bool cut_off(struct input *in, struct mt_error *err)
{
    if (in->err.code != MT_E_NONE)
        *err = in->err;
    else
        mt_fail(err, MT_E_TRUNCATED, in->offset, "the ops file ends early at offset %llu; make it again",
                (unsigned long long)(in->offset + input_available(in)));
    return false;
}

static bool read_header(struct input *in, enum ops_kind *kind, struct mt_error *err)
{
    if (input_need(in, OPS_MAGIC_SIZE + 1) <= OPS_MAGIC_SIZE)
        return cut_off(in, err);
    const uint8_t *p = input_bytes(in);
    const uint8_t version = p[OPS_MAGIC_SIZE - 1];
    if (version != OPS_VERSION_ENCODED) {
        mt_fail(err, MT_E_VERSION, 0, "is a binary ops file of version %u, this program knows %u to %u",
                version, OPS_VERSION_ENCODED, OPS_VERSION_COPIED);
        return false;
    }
    *kind = (enum ops_kind)p[OPS_MAGIC_SIZE];
    if (*kind != OPS_ACCESS && *kind != OPS_LOCK)
        return corrupt(in, err, "unknown kind of file");
    input_skip(in, OPS_MAGIC_SIZE + 1);
    return true;
}

/* Memory of the shapes, and its initialization at the beginning of each block. False when out of memory. */
static bool shapes_init(struct ops_shapes *s)
{
    void *lines;
    if (posix_memalign(&lines, 64, (OPS_BLOCK + 1) * sizeof *s->lines))
        return false;
    s->lines = lines;
    s->parts = malloc(OPS_BLOCK * sizeof *s->parts);
    s->line_of = malloc((OPS_BLOCK + 1) * sizeof *s->line_of);
    return s->parts && s->line_of;
}

struct ops_decoder *ops_decoder_new(struct input *in, struct mt_error *err)
{
    enum ops_kind kind;
    if (!read_header(in, &kind, err))
        return NULL;
    struct ops_decoder *d = calloc(1, sizeof *d);
    if (d)
        d->zstd = ZSTD_createDCtx();
    if (!d || !d->zstd || !shapes_init(&d->shapes)) {
        mt_fail_memory(err);
        ops_decoder_free(d);
        return NULL;
    }
    d->kind = kind;
    return d;
}

/* Memory of the shapes, and its initialization at the beginning of each block. False when out of memory. */
static void shapes_free(struct ops_shapes *s)
{
    free(s->lines);
    free(s->parts);
    free(s->line_of);
}

void ops_decoder_free(struct ops_decoder *d)
{
    if (!d)
        return;
    ZSTD_freeDCtx(d->zstd);
    shapes_free(&d->shapes);
    free(d->raw);
    free(d);
}

static bool read_block_header(const struct ops_decoder *d, struct input *in, struct ops_block *b,
                              struct mt_error *err)
{
    if (input_need(in, OPS_HEADER_SIZE) < OPS_HEADER_SIZE)
        return cut_off(in, err);
    if (!ops_block_parse(input_bytes(in), d->kind, b))
        return corrupt(in, err, "impossible sizes of a block");
    if (input_need(in, OPS_HEADER_SIZE + b->stored) < OPS_HEADER_SIZE + b->stored)
        return cut_off(in, err);
    const uint8_t *p = input_bytes(in);
    if (ops_block_hash(p, p + OPS_HEADER_SIZE, b->stored) != b->hash)
        return corrupt(in, err, "checksum wrong");
    return true;
}

static bool make_room(struct ops_decoder *d, size_t size)
{
    uint8_t *raw = d->room >= size ? d->raw : realloc(d->raw, size);
    if (!raw)
        return false;
    d->raw = raw;
    d->room = d->room >= size ? d->room : size;
    return true;
}

/* Check that nothing follows the end of the file. */
static bool end_file(struct ops_decoder *d, struct input *in, struct mt_error *err)
{
    if (d->survivors.more)
        return corrupt(in, err, "the list of blocks that are never freed is cut short");
    input_skip(in, OPS_HEADER_SIZE);
    d->ended = true;
    if (input_need(in, 1) > 0)
        return corrupt(in, err, "bytes follow the end");
    if (in->err.code != MT_E_NONE)
        *err = in->err;
    return in->err.code == MT_E_NONE;
}

static bool unpack(struct ops_decoder *d, struct input *in, const struct ops_block *b, struct mt_error *err)
{
    if (!make_room(d, b->size)) {
        mt_fail_memory(err);
        return false;
    }
    size_t got = ZSTD_decompressDCtx(d->zstd, d->raw, b->size, input_bytes(in) + OPS_HEADER_SIZE, b->stored);
    if (ZSTD_isError(got) || got != b->size)
        return corrupt(in, err, "a block does not decompress");
    input_skip(in, OPS_HEADER_SIZE + b->stored);
    return true;
}

/* Check a block without operations, which has been decompressed. */
static bool look_at_list(struct ops_decoder *d, struct input *in, const struct ops_block *b,
                         struct mt_error *err)
{
    return id_list_read(&d->survivors, d->raw, b->size, b->total) ||
           corrupt(in, err, "the list of blocks that are never freed is invalid");
}

/* Memory of the shapes, and its initialization at the beginning of each block. False when out of memory. */
static void shapes_begin_block(struct ops_shapes *s)
{
    s->n_lines = 1;
    s->n_parts = s->names = 0;
    s->previous = 0;
    s->run = 0;
    s->after = TOKEN_RUN;
    memset(&s->lines[0], 0, sizeof s->lines[0]);
}

/* Read and decompress the next block. */
static bool begin_block(struct ops_decoder *d, struct input *in, struct mt_error *err)
{
    struct ops_block b;
    if (!read_block_header(d, in, &b, err))
        return false;
    if (b.total != d->total + b.count)
        return corrupt(in, err, "a block is missing");
    if (b.size == 0)
        return end_file(d, in, err);
    if (!unpack(d, in, &b, err))
        return false;
    if (b.count == 0)
        return look_at_list(d, in, &b, err);
    if (d->survivors.begun)
        return corrupt(in, err, "operations follow the list of blocks that are never freed");
    d->at = (struct cursor){.p = d->raw, .end = d->raw + b.size};
    d->left = b.count;
    memset(&d->predictor, 0, sizeof d->predictor);
    shapes_begin_block(&d->shapes);
    return true;
}

/* Read the marks, the first of which is `mark`. *flags is the byte after them. */
static bool take_marks(struct ops_decoder *d, uint8_t mark, uint8_t *flags)
{
    struct ops_predictor *p = &d->predictor;
    if (mark == OPS_MARK_THREAD) {
        uint64_t thread = cursor_uvarint(&d->at);
        if (thread > OPS_MOST_THREADS)
            return false;
        p->thread = (uint32_t)thread;
        mark = cursor_byte(&d->at);
    }
    if (mark == OPS_MARK_TIME) {
        p->time += (uint64_t)unzigzag(cursor_uvarint(&d->at));
        mark = cursor_byte(&d->at);
    }
    *flags = mark;
    return (mark & 15) < OP_CODES;
}

/* Decode the operation that begins with this byte. */
static inline bool take(struct ops_decoder *d, uint8_t flags, struct op *op)
{
    struct ops_predictor *p = &d->predictor;
    if (__builtin_expect((flags & 15) >= OP_CODES, 0) && !take_marks(d, flags, &flags))
        return false;
    op->code = flags & 15;
    op->thread = p->thread;
    op->time = p->time;
    if (flags & OPS_RESERVED || !ops_allowed(d->kind, op->code))
        return false;
    struct ops_guess guess = ops_guess(p, op->code);
    op->handle = guess.handle;
    if (!(flags & OPS_HANDLE_KNOWN))
        op->handle += (uint64_t)unzigzag(cursor_uvarint_any(&d->at));
    op->addr = 0;
    if (!(flags & OPS_ADDR_ZERO))
        op->addr = *ops_addr_guess(p, op->handle, op->code) + (uint64_t)unzigzag(cursor_uvarint_any(&d->at));
    op->size = flags & OPS_SIZE_KNOWN ? guess.size : cursor_uvarint_any(&d->at);
    ops_learn(p, op);
    op->addr = d->passes ? 0 : op->addr;
    d->left--;
    return true;
}

static inline bool is_access(uint32_t code)
{
    return code >= OP_LOAD && code <= OP_MODIFY;
}

/* -- executions of shapes --
 *
 * Everything in a token is checked before it is used. A shape has no more words than parts, and each shape is
 * executed where it is defined, so the shapes of a block need no more memory than its operations. */

/* Read a token; take_executions decodes its executions. False if it is invalid. */
static bool take_token(struct ops_decoder *d)
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

/* Decoder: the line of the shape of a token of another kind than TOKEN_RUN; 0 after an error. */
static uint32_t take_line(struct ops_decoder *d, enum ops_token kind)
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

/* Decode a run of executions that are as predicted; see take_executions. */
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

/* Decode pending executions as long as there is room up to `end`, and at least one. Returns the end of their
 * operations, or NULL if one is invalid. */
static struct op *take_executions(struct ops_decoder *d, struct op *out, const struct op *end)
{
    struct ops_shapes *s = &d->shapes;
    if (s->run)
        return take_run(d, out, end);
    enum ops_token kind = s->after;
    uint32_t line = take_line(d, kind);
    s->after = TOKEN_RUN;
    return line ? execute(d, line, cursor_uvarint(&d->at), out) : NULL;
}

/* -- executions without operations, for readers that skip accesses --
 *
 * The handles of Frees, News and Resizes are encoded relative to the blocks of the words before them, so executions
 * must be decoded. But only the block of a word matters for this, and it does not depend on addresses, so addresses
 * are neither decoded nor predicted. No operations are made, so no room for them has to be reserved, and all tokens
 * that follow one another are decoded in one loop. */

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
    const uint32_t line = take_line(d, kind);
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

/* Skip all tokens that follow one another, for callers that skip accesses. False if an execution is invalid. */
static bool pass_tokens(struct ops_decoder *d)
{
    const struct ops_line *last;
    while (ops_at_token(d))
        if (!pass_token(d, *d->at.p++))
            return false;
    last = &d->shapes.lines[d->shapes.previous];
    d->predictor.handle = last[last->words - 1].handle;
    return true;
}

/* Decode the next operation, or the next executions of shapes, up to `end`. Returns the end of the operations, or
 * NULL after an error. */
static inline struct op *take_next(struct ops_decoder *d, struct op *out, const struct op *end)
{
    const bool pending = d->shapes.run || d->shapes.after != TOKEN_RUN;
    if (!pending && !ops_at_token(d))
        return take(d, cursor_byte(&d->at), out) ? out + !(d->passes && is_access(out->code)) : NULL;
    if (d->passes)
        return pass_tokens(d) ? out : NULL;
    return pending || take_token(d) ? take_executions(d, out, end) : NULL;
}

/* Decode operations of the block as long as there is room for an execution. Returns their number or MT_ERROR. */
static int take_some(struct ops_decoder *d, struct input *in, struct op *ops, unsigned room,
                     struct mt_error *err)
{
    struct op *out = ops, *end = ops + room;
    uint32_t left = d->left;
    while (d->left && end - out >= OPS_SHAPE_MOST) {
        out = take_next(d, out, end);
        if (!out || d->at.bad) {
            corrupt(in, err, "an operation that this kind of file cannot have in the block before it");
            return MT_ERROR;
        }
    }
    d->total += left - d->left;
    if (d->left == 0 && (d->at.p != d->at.end || d->shapes.run || d->shapes.after != TOKEN_RUN)) {
        corrupt(in, err, "the length of the block before it does not match its operations");
        return MT_ERROR;
    }
    return (int)(out - ops);
}

int ops_decode(struct ops_decoder *d, struct input *in, struct op *ops, unsigned room, struct mt_error *err)
{
    int given = 0;
    while (given == 0 && (d->left || !d->ended)) {
        if (d->left == 0 && !begin_block(d, in, err))
            return MT_ERROR;
        given = take_some(d, in, ops, room, err);
    }
    return given;
}
