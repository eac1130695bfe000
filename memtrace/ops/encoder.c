/* encoder.c - encodes operations into the binary form.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/compression.h"
#include "memtrace/base/error.h"
#include "memtrace/format/chunk.h"
#include "memtrace/ops/binary.h"
#include "memtrace/ops/shapes.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Size of zstd's hash table. With 16 KB it stays in the cache with the other data, which is 10 to 20% faster than the
 * default of the level; files are 1 to 5% larger. */
#define HASH_LOG 12

static void write_header(struct ops_sink *sink, enum ops_kind kind)
{
    uint8_t header[OPS_MAGIC_SIZE + 1];
    memcpy(header, OPS_MAGIC, OPS_MAGIC_SIZE);
    header[OPS_MAGIC_SIZE] = (uint8_t)kind;
    ops_sink_write(sink, header, sizeof header);
}

static bool set_compression(ZSTD_CCtx *zstd)
{
    return !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, COMPRESSION_LEVEL)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_hashLog, HASH_LOG));
}

struct ops_encoder *ops_encoder_new(struct ops_sink *sink, enum ops_kind kind, struct ops_piece piece,
                                    struct mt_error *err)
{
    struct ops_encoder *e = calloc(1, sizeof *e);
    size_t room = ZSTD_compressBound(OPS_BLOCK * OPS_LONGEST);
    if (e) {
        e->zstd = ZSTD_createCCtx();
        e->raw = malloc(OPS_BLOCK * OPS_LONGEST + UVARINT_BEYOND);
        e->packed = malloc(room);
        e->packed_room = room;
        e->kind = kind;
        e->total = piece.before;
        e->last = piece.last;
    }
    if (!e || !e->zstd || !e->raw || !e->packed || !set_compression(e->zstd) ||
        !ops_encoder_begin_shapes(e)) {
        mt_fail_memory(err);
        if (e)
            ops_encoder_finish(e, NULL);
        return NULL;
    }
    if (piece.first)
        write_header(sink, kind);
    return e;
}

/* Write a block header and its payload. */
static void write_block(struct ops_encoder *e, struct ops_sink *sink, size_t stored)
{
    uint8_t header[OPS_HEADER_SIZE] = {0};
    store_u32(header, e->count);
    store_u32(header + 4, (uint32_t)e->used);
    store_u32(header + 8, (uint32_t)stored);
    store_u64(header + 16, e->total);
    store_u64(header + 24, ops_block_hash(header, e->packed, stored));
    ops_sink_write(sink, header, sizeof header);
    ops_sink_write(sink, e->packed, stored);
}

/* Compress the current block and write it. */
static void compress_block(struct ops_encoder *e, struct ops_sink *sink)
{
    size_t stored = ZSTD_compress2(e->zstd, e->packed, e->packed_room, e->raw, e->used);
    if (ZSTD_isError(stored))
        mt_fail(&sink->err, MT_E_IO, sink->written, "cannot compress: %s", ZSTD_getErrorName(stored));
    else
        write_block(e, sink, stored);
    e->count = 0;
    e->used = 0;
}

/* Write the block of the operations so far. */
static void end_block(struct ops_encoder *e, struct ops_sink *sink)
{
    if (e->run)
        ops_encoder_end_run(e);
    e->total += e->count;
    compress_block(e, sink);
    memset(&e->predictor, 0, sizeof e->predictor);
    e->epoch++;
    e->names = e->previous = 0;
    e->lines[0].next[0] = e->lines[0].next[1] = 0;
}

/* Write marks if thread or time differ from those of the operation before. */
static uint8_t *put_marks(uint8_t *to, struct ops_predictor *p, const struct op *op)
{
    if (op->thread != p->thread) {
        *to++ = OPS_MARK_THREAD;
        to = uvarint_write(to, op->thread);
        p->thread = op->thread;
    }
    if (op->time != p->time) {
        *to++ = OPS_MARK_TIME;
        to = uvarint_write(to, zigzag((int64_t)(op->time - p->time)));
        p->time = op->time;
    }
    return to;
}

static uint8_t *put(uint8_t *to, struct ops_predictor *p, const struct op *op)
{
    to = put_marks(to, p, op);
    uint8_t *flags = to++;
    struct ops_guess guess = ops_guess(p, op->code);
    *flags = (uint8_t)op->code;
    if (op->handle == guess.handle)
        *flags |= OPS_HANDLE_KNOWN;
    else
        to = uvarint_write_any(to, zigzag((int64_t)(op->handle - guess.handle)));
    uint64_t *addr = ops_addr_guess(p, op->handle, op->code);
    if (op->addr == 0)
        *flags |= OPS_ADDR_ZERO;
    else
        to = uvarint_write_any(to, zigzag((int64_t)(op->addr - *addr)));
    if (op->size == guess.size)
        *flags |= OPS_SIZE_KNOWN;
    else
        to = uvarint_write_any(to, op->size);
    ops_learn(p, op);
    return to;
}

/* Is it a common lock or unlock: without address and size, and without marks? */
static inline bool is_plain_lock(const struct ops_predictor *p, const struct op *op)
{
    return op->code - OP_LOCK <= OP_UNLOCK - OP_LOCK &&
           !(op->addr | op->size | p->sizes[op->code] | (op->thread ^ p->thread) | (op->time ^ p->time));
}

/* The same as put for a plain lock whose handle takes at most two bytes. It has no branch, because branches would
 * be mispredicted here. NULL if the handle takes more bytes. */
static inline uint8_t *put_plain_lock(uint8_t *to, struct ops_predictor *p, const struct op *op)
{
    const uint64_t change = zigzag((int64_t)(op->handle - p->handle));
    const uint32_t stored = change != 0, two = change >= 0x80;
    if (change >= 0x4000)
        return NULL;
    to[0] = (uint8_t)(op->code | OPS_ADDR_ZERO | OPS_SIZE_KNOWN | (stored ? 0 : OPS_HANDLE_KNOWN));
    to[1] = (uint8_t)((change & 0x7f) | two << 7);
    to[2] = (uint8_t)(change >> 7);
    p->handle = op->handle;
    p->addrs[op->handle % OPS_PREDICTED] = 0;
    return to + 1 + stored + two;
}

static inline uint8_t *put_any(uint8_t *to, struct ops_predictor *p, const struct op *op)
{
    uint8_t *end = is_plain_lock(p, op) ? put_plain_lock(to, p, op) : NULL;
    return end ? end : put(to, p, op);
}

/* Report why an operation is not allowed in the file. */
static void refuse(const struct ops_encoder *e, struct ops_sink *sink, const struct op *op)
{
    if (!ops_allowed(e->kind, op->code))
        mt_fail(&sink->err, MT_E_FORMAT, sink->written, "operation %u is not allowed in this kind of file",
                op->code);
    else
        mt_fail(&sink->err, MT_E_FORMAT, sink->written, "%u is too large for a thread", op->thread);
}

/* Encode operations as long as the block has room, up to one that is not allowed. Returns their number. */
static size_t encode_some(struct ops_encoder *e, const struct op *ops, size_t n)
{
    uint8_t *to = e->raw + e->used;
    size_t i;
    for (i = 0; i < n && ops_allowed(e->kind, ops[i].code) && ops[i].thread <= OPS_MOST_THREADS; i++)
        to = put_any(to, &e->predictor, &ops[i]);
    e->used = (size_t)(to - e->raw);
    e->count += (uint32_t)i;
    return i;
}

void ops_encode(struct ops_encoder *e, struct ops_sink *sink, const struct op *ops, size_t n)
{
    if (n && e->run)
        ops_encoder_end_run(e);
    while (n && sink->err.code == MT_E_NONE) {
        size_t room = OPS_BLOCK - e->count, done = encode_some(e, ops, n < room ? n : room);
        if (e->count == OPS_BLOCK)
            end_block(e, sink);
        else if (done < n)
            refuse(e, sink, ops + done);
        ops += done;
        n -= done;
    }
}

void ops_encode_executions(struct ops_encoder *e, struct ops_sink *sink, struct ops_executions *x)
{
    bool ended;
    do {
        uint32_t room = OPS_BLOCK - e->count;
        uint32_t done = ops_encoder_execute(e, x, x->left < room ? (uint32_t)x->left : room);
        e->count += done;
        x->left -= done;
        ended = e->count == OPS_BLOCK;
        if (ended)
            end_block(e, sink);
    } while (ended && x->step < x->end && sink->err.code == MT_E_NONE);
}

void ops_encode_survivors(struct ops_encoder *e, struct ops_sink *sink, const uint64_t *ordinals, size_t n)
{
    uint64_t next = 0;
    if (e->kind != OPS_ACCESS || !e->last)
        return;
    if (e->count)
        end_block(e, sink);
    do {
        e->used = id_list_write(e->raw, &ordinals, &n, &next);
        compress_block(e, sink);
    } while (n && sink->err.code == MT_E_NONE);
}

void ops_encoder_finish(struct ops_encoder *e, struct ops_sink *sink)
{
    if (sink && e->count)
        end_block(e, sink);
    if (sink && e->count == 0 && e->last)
        write_block(e, sink, 0);
    ZSTD_freeCCtx(e->zstd);
    free(e->raw);
    free(e->packed);
    free(e->lines);
    free(e->parts);
    free(e);
}
