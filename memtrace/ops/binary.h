/* binary.h - the compact form of lockops files, and of ops files that are no copies of a trace
 * (trace_copy.h); docs/ops-format.md is its specification.
 *
 *     file  = magic kind block* list* end
 *     block = header, zstd payload       header: sizes, operations so far, hash of header and payload
 *     list  = a block of no operations, see memtrace/base/id_list.h
 *     end   = a block of no operations and no payload
 *
 * Each operation is a byte of flags and code, then what a predictor did not foresee as varints. Marks, which
 * are codes too, stand before an operation whose thread or time is another than that of the one before. Runs
 * of accesses that come again and again are executions of shapes, foreseen as a whole (shapes.h). Every
 * block decodes from a cold predictor. Neither reading nor writing needs memory for live blocks.
 *
 * Used by reader.c and writer.c only; programs see ops.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_BINARY_H
#define MEMTRACE_OPS_BINARY_H

#include "memtrace/base/id_list.h"
#include "memtrace/base/input.h"
#include "memtrace/base/varint.h"
#include "memtrace/ops.h"
#include "memtrace/ops/sink.h"

#include <zstd.h>

/* The last byte of the magic is the version: this form's, or that of trace_copy.h. */
enum { OPS_VERSION_ENCODED = 1, OPS_VERSION_COPIED = 2 };
#define OPS_MAGIC "\x7fOPS\r\n\x1a\x01"
#define OPS_MAGIC_SIZE 8
#define OPS_BLOCK OPS_PIECE /* operations in a block, at most */
#define OPS_PREDICTED 4096
#define OPS_RECENT 16

/* What the next operation is expected to be; the same on both sides. */
struct ops_predictor {
    uint64_t handle;               /* of the last operation */
    uint64_t next_handle;          /* of the next N */
    uint64_t new_addr;             /* of the last N */
    uint64_t sizes[16];            /* last size by code */
    uint64_t addrs[OPS_PREDICTED]; /* last address by the low bits of the handle */
    uint64_t time;                 /* of the last operation */
    uint32_t thread;               /* of the last operation */
    uint32_t recent_next;
    uint64_t recent_addr[OPS_RECENT]; /* of the last words of shapes, N and R: a ring */
    uint64_t recent_handle[OPS_RECENT];
    uint32_t low[OPS_RECENT]; /* of these handles, for searches */
};

struct ops_line;

/* The shapes of the block being decoded, and the token at hand. */
struct ops_shapes {
    struct ops_line *lines;
    struct ops_part *parts;
    uint32_t *line_of; /* by name */
    uint32_t n_lines, n_parts, names;
    uint32_t previous; /* line */
    uint32_t run;      /* executions as foreseen that come next */
    uint32_t after;    /* enum ops_token: what comes then */
};

struct ops_decoder {
    enum ops_kind kind;
    struct ops_shapes shapes;
    ZSTD_DCtx *zstd;
    uint8_t *raw; /* the payload of the block, decompressed */
    size_t room;
    struct cursor at;
    uint32_t left;  /* operations of the block still to decode */
    uint64_t total; /* decoded from the file so far */
    bool ended;
    bool passes; /* loads, stores and modifies are not given */
    struct id_list survivors;
    struct ops_predictor predictor;
};

/* Does the input begin as a binary ops file? Nothing is consumed. */
bool ops_binary_here(struct input *in);
/* Read the file header. NULL with *err on error. */
struct ops_decoder *ops_decoder_new(struct input *in, struct mt_error *err);
void ops_decoder_free(struct ops_decoder *d);
/* Decode until there are operations, up to `room` >= OPS_SHAPE_MOST of them: how many, 0 at the end of the
 * file, or MT_ERROR with *err. */
int ops_decode(struct ops_decoder *d, struct input *in, struct op *ops, unsigned room, struct mt_error *err);

/* Shapes: false when out of memory; for each block. */
bool ops_shapes_init(struct ops_shapes *s);
void ops_shapes_free(struct ops_shapes *s);
void ops_shapes_begin_block(struct ops_shapes *s);
/* Is there a token next, while operations are left? Else one of them is. */
static inline bool ops_at_token(const struct ops_decoder *d)
{
    return d->at.p < d->at.end && *d->at.p >= 0x80 && d->left;
}
/* The token that is next, its executions pending; false if it cannot be. */
bool ops_take_token(struct ops_decoder *d);
/* The executions that come next, as many as up to `end` there is surely room for and at least one: the end of
 * what they gave, NULL if one cannot be. */
struct op *ops_take_executions(struct ops_decoder *d, struct op *out, const struct op *end);
/* Pass over all tokens that come next, for callers that skip accesses. False if an execution is impossible. */
bool ops_pass_tokens(struct ops_decoder *d);

struct ops_encoder {
    enum ops_kind kind;
    ZSTD_CCtx *zstd;
    uint8_t *raw, *packed;
    size_t used, packed_room;
    uint32_t count;
    uint64_t total;
    bool last; /* it ends the file */
    struct ops_predictor predictor;
    struct ops_line *lines; /* of all shapes; and their parts */
    struct ops_part *parts;
    uint32_t n_lines, n_parts;
    size_t lines_room, parts_room;
    uint32_t epoch;     /* of the block, from 1 */
    uint32_t names;     /* of shapes in the block */
    uint32_t previous;  /* line of the last execution */
    uint32_t run;       /* executions as foreseen, not yet written */
    uint8_t *about_end; /* of what is told of the words of the execution at hand */
    uint8_t about[OPS_SHAPE_WORDS * 2 * UVARINT_MAX_BYTES + UVARINT_BEYOND];
};

struct ops_encoder *ops_encoder_new(struct ops_sink *sink, enum ops_kind kind, struct ops_piece piece,
                                    struct mt_error *err);
void ops_encode(struct ops_encoder *e, struct ops_sink *sink, const struct op *ops, size_t n);
/* Before all else; false when out of memory. */
bool ops_encoder_begin_shapes(struct ops_encoder *e);
/* A shape, by what ops_encode_executions will call it; 0 when out of memory. */
uint32_t ops_encoder_shape(struct ops_encoder *e, const struct ops_part *parts, unsigned count,
                           unsigned words);
void ops_encode_executions(struct ops_encoder *e, struct ops_sink *sink, struct ops_executions *x);
/* Its steps: executions of up to `room` operations, for which the block has room; how many operations that
 * were. Writing what was foreseen before anything else. */
uint32_t ops_encoder_execute(struct ops_encoder *e, struct ops_executions *x, uint32_t room);
void ops_encoder_end_run(struct ops_encoder *e);
/* Write what is left and, of a file of accesses whose end this is, the list of what is never freed. */
void ops_encode_survivors(struct ops_encoder *e, struct ops_sink *sink, const uint64_t *ordinals, size_t n);
/* Write what is left and the end, and free the encoder. */
void ops_encoder_finish(struct ops_encoder *e, struct ops_sink *sink);

/* How comments of the text form begin that say something about the operations after them. */
#define OPS_SAYS_THREAD "# thread "
#define OPS_SAYS_TIME "# time "

/* May an operation stand in a file of a kind? */
static inline bool ops_allowed(enum ops_kind kind, uint32_t code)
{
    const uint32_t access = 1u << OP_LOAD | 1u << OP_STORE | 1u << OP_MODIFY;
    const uint32_t lock = 1u << OP_LOCK | 1u << OP_UNLOCK | 1u << OP_COMPACT;
    const uint32_t both = 1u << OP_NEW | 1u << OP_FREE | 1u << OP_RESIZE;
    return code < OP_CODES && ((both | (kind == OPS_LOCK ? lock : access)) >> code & 1);
}

#endif
