/* shapes.h - predicts executions of shapes (ops.h), for the encoder and the decoder of binary ops files.
 *
 * Programs repeat themselves: the shape that followed a shape last time mostly follows it again. Its words are mostly
 * where they were, or one stride further, or at the same distance from one of the recent words. Only differences from
 * the prediction are stored. The prediction is that of the trace format (memtrace/format/predictor.h), with handles
 * in the place of slots, and is reset in each block. Any change here changes the format. The specification is
 * docs/ops-format.md.
 *
 * Used by encoder*.c and decoder*.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_SHAPES_H
#define MEMTRACE_OPS_SHAPES_H

#include "memtrace/ops/op_coding.h"

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

/* Decoder: the line of the shape of a token of another kind than TOKEN_RUN; 0 after an error. */
uint32_t ops_take_line(struct ops_decoder *d, enum ops_token kind);

#endif
