/* decoder.c - decodes operations from the binary form.
 *
 * Everything in a file is checked, because it may be malicious: sizes before memory is allocated, the hash before
 * decompression, codes against the kind of the file, and that the operations use up a block exactly.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/ops/binary.h"
#include "memtrace/ops/block.h"
#include "memtrace/ops/shapes.h"

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

struct ops_decoder *ops_decoder_new(struct input *in, struct mt_error *err)
{
    enum ops_kind kind;
    if (!read_header(in, &kind, err))
        return NULL;
    struct ops_decoder *d = calloc(1, sizeof *d);
    if (d)
        d->zstd = ZSTD_createDCtx();
    if (!d || !d->zstd || !ops_shapes_init(&d->shapes)) {
        mt_fail_memory(err);
        ops_decoder_free(d);
        return NULL;
    }
    d->kind = kind;
    return d;
}

void ops_decoder_free(struct ops_decoder *d)
{
    if (!d)
        return;
    ZSTD_freeDCtx(d->zstd);
    ops_shapes_free(&d->shapes);
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
    ops_shapes_begin_block(&d->shapes);
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

/* Decode the next operation, or the next executions of shapes, up to `end`. Returns the end of the operations, or
 * NULL after an error. */
static inline struct op *take_next(struct ops_decoder *d, struct op *out, const struct op *end)
{
    const bool pending = d->shapes.run || d->shapes.after != TOKEN_RUN;
    if (!pending && !ops_at_token(d))
        return take(d, cursor_byte(&d->at), out) ? out + !(d->passes && is_access(out->code)) : NULL;
    if (d->passes)
        return ops_pass_tokens(d) ? out : NULL;
    return pending || ops_take_token(d) ? ops_take_executions(d, out, end) : NULL;
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
