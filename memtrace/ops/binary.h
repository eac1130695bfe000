/* binary.h - the binary form of ops and lockops files. Ops files may instead be copies of a trace (trace_copy.h).
 *
 *     file  = magic kind block* list* end
 *     block = header, zstd payload       header: sizes, operations so far, hash of header and payload
 *     list  = a block of no operations, see memtrace/base/id_list.h
 *     end   = a block of no operations and no payload
 *
 * An operation is a byte of flags and code, followed by varints for what was not predicted. A mark, which has a code
 * like an operation, precedes an operation whose thread or time differs from that of the one before. Sequences of
 * accesses that occur repeatedly are executions of shapes (ops.h), which are predicted as a whole (shapes.h). A *token*
 * in the place of an operation says which shapes are executed next. In each block, the prediction begins anew. The
 * memory needed for reading and writing does not depend on the number of live blocks.
 *
 * The specification is docs/ops-format.md. Used by the other files of this folder only; programs use ops.h.
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

/* The last byte of the magic number is the version: of this form, or of that in trace_copy.h. */
enum { OPS_VERSION_ENCODED = 1, OPS_VERSION_COPIED = 2 };
#define OPS_MAGIC "\x7fOPS\r\n\x1a\x01"
#define OPS_MAGIC_SIZE 8
#define OPS_BLOCK OPS_PIECE /* maximum number of operations of a block */
#define OPS_PREDICTED 4096 /* number of addresses that the prediction remembers, see addrs below */
#define OPS_RECENT 16      /* number of recent words that it remembers */

/* What the next operation is predicted from. Encoder and decoder keep the same state. */
struct ops_predictor {
    uint64_t handle;               /* handle of the last operation */
    uint64_t next_handle;          /* handle of the next N */
    uint64_t new_addr;             /* address of the last N */
    uint64_t sizes[16];            /* last size by code */
    uint64_t addrs[OPS_PREDICTED]; /* last address by the low bits of the handle */
    uint64_t time;                 /* time of the last operation */
    uint32_t thread;               /* thread of the last operation */
    uint32_t recent_next;
    uint64_t recent_addr[OPS_RECENT]; /* ring of the last words of shapes and of the last N and R */
    uint64_t recent_handle[OPS_RECENT];
    uint32_t low[OPS_RECENT]; /* low half of the handles, for searches */
};

struct ops_line;

/* The shapes of the block that is being decoded, and the current token. A *line* is the state of one word of a shape,
 * in a cache line; the line of a shape is that of its first word (shapes.h). */
struct ops_shapes {
    struct ops_line *lines;
    struct ops_part *parts;
    uint32_t *line_of; /* by the name of a shape: its line */
    uint32_t n_lines, n_parts, names;
    uint32_t previous; /* line of the last execution */
    uint32_t run;      /* number of executions that come next and are as predicted */
    uint32_t after;    /* enum ops_token: the kind of the execution after them */
};

struct ops_decoder {
    enum ops_kind kind;
    struct ops_shapes shapes;
    ZSTD_DCtx *zstd;
    uint8_t *raw; /* decompressed payload of the block */
    size_t room;
    struct cursor at;
    uint32_t left;  /* number of operations of the block not decoded yet */
    uint64_t total; /* number of operations decoded from the file */
    bool ended;
    bool passes; /* skip loads, stores and modifies */
    struct id_list survivors;
    struct ops_predictor predictor;
};

/* Does the input begin like a binary ops file? Nothing is consumed. */
bool ops_binary_here(struct input *in);
/* Read the file header. On error returns NULL and sets *err. */
struct ops_decoder *ops_decoder_new(struct input *in, struct mt_error *err);
void ops_decoder_free(struct ops_decoder *d);
/* Decode up to `room` >= OPS_SHAPE_MOST operations, at least one. Returns their number, 0 at the end of the file,
 * or MT_ERROR with *err. */
int ops_decode(struct ops_decoder *d, struct input *in, struct op *ops, unsigned room, struct mt_error *err);

/* Memory of the shapes, and its initialization at the beginning of each block. False when out of memory. */
bool ops_shapes_init(struct ops_shapes *s);
void ops_shapes_free(struct ops_shapes *s);
void ops_shapes_begin_block(struct ops_shapes *s);
/* Is the next item a token, and are there operations left? Otherwise it is an operation. */
static inline bool ops_at_token(const struct ops_decoder *d)
{
    return d->at.p < d->at.end && *d->at.p >= 0x80 && d->left;
}
/* Read a token; ops_take_executions decodes its executions. False if it is invalid. */
bool ops_take_token(struct ops_decoder *d);
/* Decode pending executions as long as there is room up to `end`, and at least one. Returns the end of their
 * operations, or NULL if one is invalid. */
struct op *ops_take_executions(struct ops_decoder *d, struct op *out, const struct op *end);
/* Skip all tokens that follow one another, for callers that skip accesses. False if an execution is invalid. */
bool ops_pass_tokens(struct ops_decoder *d);

struct ops_encoder {
    enum ops_kind kind;
    ZSTD_CCtx *zstd;
    uint8_t *raw, *packed;
    size_t used, packed_room;
    uint32_t count;
    uint64_t total;
    bool last; /* the next block is the end of the file */
    struct ops_predictor predictor;
    struct ops_line *lines; /* of all shapes; `parts` likewise */
    struct ops_part *parts;
    uint32_t n_lines, n_parts;
    size_t lines_room, parts_room;
    uint32_t epoch;     /* number of the block, from 1 */
    uint32_t names;     /* number of names of shapes in the block */
    uint32_t previous;  /* line of the last execution */
    uint32_t run;       /* number of executions as predicted that are not written yet */
    uint8_t *about_end; /* end of the data of the current execution's words */
    uint8_t about[OPS_SHAPE_WORDS * 2 * UVARINT_MAX_BYTES + UVARINT_BEYOND];
};

struct ops_encoder *ops_encoder_new(struct ops_sink *sink, enum ops_kind kind, struct ops_piece piece,
                                    struct mt_error *err);
void ops_encode(struct ops_encoder *e, struct ops_sink *sink, const struct op *ops, size_t n);
/* Initialize an encoder's memory of shapes; false when out of memory. */
bool ops_encoder_begin_shapes(struct ops_encoder *e);
/* Define a shape, and return its id for ops_encoder_execute; 0 when out of memory. */
uint32_t ops_encoder_shape(struct ops_encoder *e, const struct ops_part *parts, unsigned count,
                           unsigned words);
void ops_encode_executions(struct ops_encoder *e, struct ops_sink *sink, struct ops_executions *x);
/* Encode steps: executions of up to `room` operations, for which the block has room. Returns the number of
 * operations. A run of predicted executions is written before anything else. */
uint32_t ops_encoder_execute(struct ops_encoder *e, struct ops_executions *x, uint32_t room);
void ops_encoder_end_run(struct ops_encoder *e);
/* Write the current block and the list of blocks that are never freed (ops_writer_survivors). Does nothing in a lockops
 * file, or if this is not the file's last piece. */
void ops_encode_survivors(struct ops_encoder *e, struct ops_sink *sink, const uint64_t *ordinals, size_t n);
/* Write the current block and the end of the file, and free the encoder. */
void ops_encoder_finish(struct ops_encoder *e, struct ops_sink *sink);

/* Beginnings of the comments in text files that apply to the operations after them. */
#define OPS_SAYS_THREAD "# thread "
#define OPS_SAYS_TIME "# time "

/* Is an operation allowed in a file of this kind? */
static inline bool ops_allowed(enum ops_kind kind, uint32_t code)
{
    const uint32_t access = 1u << OP_LOAD | 1u << OP_STORE | 1u << OP_MODIFY;
    const uint32_t lock = 1u << OP_LOCK | 1u << OP_UNLOCK | 1u << OP_COMPACT;
    const uint32_t both = 1u << OP_NEW | 1u << OP_FREE | 1u << OP_RESIZE;
    return code < OP_CODES && ((both | (kind == OPS_LOCK ? lock : access)) >> code & 1);
}

#endif
