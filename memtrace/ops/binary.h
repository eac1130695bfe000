/* binary.h - the binary form of ops and lockops files. Ops files may instead be copies of a trace (trace_copy.h).
 *
 *     file  = magic kind block* list* end
 *     block = header, zstd payload       header: sizes, operations so far, hash of header and payload
 *     list  = a block of no operations, see memtrace/base/id_list.h
 *     end   = a block of no operations and no payload
 *
 * An operation is a byte of flags and code, followed by varints for what was not predicted. A mark, which has a code
 * like an operation, precedes an operation whose thread or time differs from that of the one before. Sequences of
 * accesses that occur repeatedly are executions of shapes (ops.h), which are predicted as a whole. A *token*
 * in the place of an operation says which shapes are executed next. In each block, the prediction begins anew. The
 * memory needed for reading and writing does not depend on the number of live blocks.
 *
 * The specification is docs/ops-format.md. Used by the other files of this folder only; programs use ops.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_BINARY_H
#define MEMTRACE_OPS_BINARY_H

#include "memtrace/base/buffer.h"
#include "memtrace/base/id_list.h"
#include "memtrace/base/input.h"
#include "memtrace/format/chunk.h"
#include "memtrace/memtrace.h"
#include "memtrace/ops.h"

#include <xxhash.h>
#include <zstd.h>

/* The last byte of the magic number is the version: of this form, or of that in trace_copy.h. */
enum { OPS_VERSION_ENCODED = 1, OPS_VERSION_COPIED = 2 };
#define OPS_MAGIC "\x7fOPS\r\n\x1a\x01"
#define OPS_MAGIC_SIZE 8
#define OPS_BLOCK OPS_PIECE /* maximum number of operations of a block */
#define OPS_PREDICTED 4096  /* number of addresses that the prediction remembers, see addrs below */
#define OPS_RECENT 16       /* number of recent words that it remembers */

/* -- writes the bytes of an ops file to a file descriptor, compressed by zstd if requested --
 *
 * The first error is kept and ends the writing. The descriptor is not closed. */

struct ops_sink {
    int fd;
    uint64_t written;
    ZSTD_CCtx *zstd; /* NULL: no compression */
    uint8_t *packed;
    struct mt_error err;
};

/* Returns false and sets s->err when out of memory. */
bool ops_sink_init(struct ops_sink *s, int fd, bool compress);
void ops_sink_write(struct ops_sink *s, const void *data, size_t n);
/* End the zstd frame and free the memory of the sink; s->err stays. */
void ops_sink_finish(struct ops_sink *s);

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
 * in a cache line; the line of a shape is that of its first word. */
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

/* Is the next item a token, and are there operations left? Otherwise it is an operation. */
static inline bool ops_at_token(const struct ops_decoder *d)
{
    return d->at.p < d->at.end && *d->at.p >= 0x80 && d->left;
}

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
/* Define a shape, and return its id for ops_encoder_execute; 0 when out of memory. */
uint32_t ops_encoder_shape(struct ops_encoder *e, const struct ops_part *parts, unsigned count,
                           unsigned words);
void ops_encode_executions(struct ops_encoder *e, struct ops_sink *sink, struct ops_executions *x);
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

/* -- definitions shared by encoder and decoder of binary ops files: flags, block header, predictions -- */

/* The first byte of an operation: the code in the low four bits, and these flags. If bit 7 is set it is a token
 * of executions of shapes. */
enum { OPS_HANDLE_KNOWN = 0x10, OPS_ADDR_ZERO = 0x20, OPS_SIZE_KNOWN = 0x40, OPS_RESERVED = 0x80 };

/* Codes of marks, above those of operations. Bits 4 to 7 are 0, and a number follows. Marks precede an operation
 * in this order, each at most once. */
enum { OPS_MARK_THREAD = OP_CODES, OPS_MARK_TIME, OPS_MARKS };

#define OPS_LONGEST (1 + 3 * UVARINT_MAX_BYTES + 2 * (1 + UVARINT_MAX_BYTES))
/* u32 number of operations, u32 size of the payload, u32 compressed size, u32 zero, u64 number of operations of
 * the file up to the end of this block, u64 hash. */
#define OPS_HEADER_SIZE 32

/* XXH3 of the compressed payload. Its seed is the hash of the header fields before it. */
static inline uint64_t ops_block_hash(const uint8_t *header, const uint8_t *payload, size_t stored)
{
    return XXH3_64bits_withSeed(payload, stored, XXH3_64bits(header, OPS_HEADER_SIZE - 8));
}

struct ops_guess {
    uint64_t handle, size;
};

static inline struct ops_guess ops_guess(const struct ops_predictor *p, uint32_t code)
{
    return (struct ops_guess){code == OP_NEW ? p->next_handle : p->handle, p->sizes[code]};
}

/* The address that the next address is encoded relative to. */
static inline uint64_t *ops_addr_guess(struct ops_predictor *p, uint64_t handle, uint32_t code)
{
    return code == OP_NEW ? &p->new_addr : &p->addrs[handle % OPS_PREDICTED];
}

/* Store a word as number `next`. The caller increments p->recent_next, which it may keep in a register during a
 * loop. */
static inline void ops_put_recent(struct ops_predictor *p, uint32_t next, struct ops_word w)
{
    const uint32_t i = next % OPS_RECENT;
    p->recent_addr[i] = w.addr;
    p->recent_handle[i] = w.handle;
    p->low[i] = (uint32_t)w.handle;
}

static inline void ops_learn(struct ops_predictor *p, const struct op *op)
{
    p->handle = op->handle;
    p->sizes[op->code] = op->size;
    p->addrs[op->handle % OPS_PREDICTED] = op->addr;
    if (op->code == OP_NEW || op->code == OP_RESIZE)
        ops_put_recent(p, p->recent_next++, (struct ops_word){op->addr, op->handle});
    if (op->code != OP_NEW)
        return;
    p->next_handle = op->handle + 1;
    p->new_addr = op->addr;
}

/* -- predicts executions of shapes (ops.h), for the encoder and the decoder of binary ops files --
 *
 * Programs repeat themselves: the shape that followed a shape last time mostly follows it again. Its words are mostly
 * where they were, or one stride further, or at the same distance from one of the recent words. Only differences from
 * the prediction are stored. The prediction is that of the trace format (memtrace/format/predictor.h), with handles
 * in the place of slots, and is reset in each block. Any change here changes the format. The specification is
 * docs/ops-format.md.
 *
 * Used by encoder*.c and decoder*.c only. */

/* A byte with OPS_RESERVED is a token: its kind in bits 0 and 1, and in bits 2 to 6 the number of executions that
 * are as predicted. */
enum ops_token { TOKEN_RUN, TOKEN_WORDS, TOKEN_NAMED, TOKEN_DEFINED };
enum { TOKEN_RUN_LONG = 31 }; /* for this number or more, the rest follows as LEB128 */

/* How a word differs from its prediction; two bits each. */
enum ops_word_code { SHAPE_GUESSED, SHAPE_OTHER, SHAPE_NEAR, SHAPE_FAR };
enum { SHAPE_WORD_BITS = 2 };

#define SHAPE_FROM_RECENT 0x80 /* flag in mode, besides the age */

/* State of one word, in a cache line. The state of the shape is in the line of its first word. Line 0 is the state
 * before the first shape. */
struct ops_line {
    uint64_t addr, stride, delta; /* last address, confirmed difference, last difference */
    uint64_t back;                /* distance from the recent word that the mode refers to */
    uint64_t handle;
    uint32_t next[2]; /* lines of the shapes that followed, latest first */
    uint32_t first;   /* index of the first part */
    uint32_t epoch;   /* block in which this state is valid; used by the encoder */
    uint32_t name;    /* name in the block, from 1; used by the encoder */
    uint8_t mode, words, count;
} __attribute__((aligned(64)));

static inline void shape_learn_next(struct ops_line *previous, uint32_t line)
{
    previous->next[1] = previous->next[0];
    previous->next[0] = line;
}

static inline void shape_forget(struct ops_line *first, uint32_t epoch)
{
    for (uint32_t i = 0; i < first->words || i == 0; i++) {
        struct ops_line *s = &first[i];
        s->addr = s->stride = s->delta = s->back = s->handle = 0;
        s->mode = SHAPE_FROM_RECENT | 1;
    }
    first->next[0] = first->next[1] = 0;
    first->epoch = epoch;
}

/* `next`, here and below: see ops_put_recent. */
static inline struct ops_word shape_recent(const struct ops_predictor *p, uint32_t next, uint32_t age)
{
    const uint32_t i = (next - age) % OPS_RECENT;
    return (struct ops_word){p->recent_addr[i], p->recent_handle[i]};
}

static inline struct ops_word shape_guess(const struct ops_line *s, const struct ops_predictor *p,
                                          uint32_t next, bool other)
{
    const struct ops_word near = shape_recent(p, next, s->mode), own = {s->addr + s->stride, s->handle};
    /* no branch, because it would often be mispredicted */
    const uint64_t take = (uint64_t)((int64_t)(int8_t)s->mode >> 63) ^ -(uint64_t)other;
    return (struct ops_word){own.addr ^ ((own.addr ^ (near.addr + s->back)) & take),
                             own.handle ^ ((own.handle ^ near.handle) & take)};
}

/* Let a word refer to the recent word of this age, at this distance. */
static inline void shape_learn_near(struct ops_line *s, uint32_t age, uint64_t distance)
{
    s->mode = (uint8_t)(SHAPE_FROM_RECENT | age);
    s->back = distance;
}

static inline void shape_learn(struct ops_line *s, struct ops_predictor *p, uint32_t next, struct ops_word w)
{
    uint64_t delta = w.addr - s->addr;
    s->stride = delta == s->delta ? delta : s->stride;
    s->delta = delta;
    s->addr = w.addr;
    s->handle = w.handle;
    p->addrs[w.handle % OPS_PREDICTED] = w.addr;
    ops_put_recent(p, next, w);
}

/* -- reads and checks the headers of blocks in binary ops files -- */

struct ops_block {
    uint32_t count, size, stored;
    uint64_t total, hash;
};

/* Maximum size of the operations of a block. A block without operations is the end of the file, with 0 bytes, or a
 * piece of the list of memtrace/base/id_list.h. */
static inline uint32_t ops_most_size(enum ops_kind kind, uint32_t count)
{
    return count ? count * OPS_LONGEST : kind == OPS_ACCESS ? ID_LIST_SIZE : 0;
}

/* False if the sizes in a header are impossible. */
static inline bool ops_block_parse(const uint8_t *header, enum ops_kind kind, struct ops_block *b)
{
    *b = (struct ops_block){.count = load_u32(header),
                            .size = load_u32(header + 4),
                            .stored = load_u32(header + 8),
                            .total = load_u64(header + 16),
                            .hash = load_u64(header + 24)};
    return b->count <= OPS_BLOCK && (b->size || (!b->count && !b->stored)) &&
           b->size <= ops_most_size(kind, b->count) && b->stored <= ZSTD_compressBound(b->size) &&
           load_u32(header + 12) == 0;
}

/* -- finds the shape of an ops file (memtrace/ops.h) for an execution of a segment of a trace --
 *
 * A word of a segment may be in no block, and then its accesses are not operations. Each combination of such absent
 * words is a shape of its own. There are few combinations, so each segment has a list of them. Memory: O(segments). */

struct opshape {
    struct ops_shape_of is;
    uint32_t next; /* next of the other shapes of the segment; 0 = none */
};

struct opshapes {
    struct ops_shape_of *latest; /* by segment: its latest shape */
    uint32_t *others_of;         /* by segment: the first of its other shapes, 0 = none */
    size_t latest_room, others_room;
    struct opshape *others; /* indexes begin with 1; item 0 is not used */
    size_t n, room;
};

void opshapes_free(struct opshapes *o);

/* Make the shape of a segment without the absent words the latest one; a new shape is defined in the writer. False
 * if it already is the latest, or if the writer cannot have it (see ops_writer_shape). */
bool opshapes_find(struct opshapes *o, struct ops_writer *w, const struct mt_batch *p, uint32_t segment,
                   uint32_t absent);

#endif
