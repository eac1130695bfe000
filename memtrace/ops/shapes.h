/* shapes.h - how encoder and decoder of binary ops foresee executions of shapes (ops.h);
 * docs/ops-format.md.
 *
 * A program does the same again and again: the shape that followed a shape last time follows it again,
 * mostly, and its words lie where they did, or one stride further, or where they did from one of the words
 * before. Only what is otherwise is stored. The guesses are those of the trace format (memtrace/format/predictor.h) with
 * handles for slots, and known only within a block. A change here is a change of the form.
 *
 * Used by ops_encode*.c and ops_decode*.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_SHAPES_H
#define MEMTRACE_OPS_SHAPES_H

#include "memtrace/ops/op_coding.h"

/* A byte with OPS_RESERVED begins a token: a kind in bits 0-1, in bits 2-6 how many executions are as
 * foreseen. */
enum ops_token { TOKEN_RUN, TOKEN_WORDS, TOKEN_NAMED, TOKEN_DEFINED };
enum { TOKEN_RUN_LONG = 31 }; /* so many or more: the rest follows as LEB128 */

/* How a word differs from what was foreseen; two bits each. */
enum ops_word_code { SHAPE_GUESSED, SHAPE_OTHER, SHAPE_NEAR, SHAPE_FAR };
enum { SHAPE_WORD_BITS = 2 };

#define SHAPE_FROM_RECENT 0x80 /* in mode, beside how far back */

/* One word, in a cache line; what belongs to the shape stands in that of its first word. Number 0 stands for
 * "no shape yet". */
struct ops_line {
    uint64_t addr, stride, delta; /* last, the confirmed and the last difference */
    uint64_t back;                /* distance from the recent word it refers to */
    uint64_t handle;
    uint32_t next[2]; /* the shapes that followed, latest first */
    uint32_t first;   /* of its parts */
    uint32_t epoch;   /* the block in which all this is known; the encoder's */
    uint32_t name;    /* in the block, from 1; the encoder's */
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

/* `next`, here and below: as of ops_put_recent. */
static inline struct ops_word shape_recent(const struct ops_predictor *p, uint32_t next, uint32_t far)
{
    const uint32_t i = (next - far) % OPS_RECENT;
    return (struct ops_word){p->recent_addr[i], p->recent_handle[i]};
}

static inline struct ops_word shape_guess(const struct ops_line *s, const struct ops_predictor *p,
                                          uint32_t next, bool other)
{
    const struct ops_word near = shape_recent(p, next, s->mode), own = {s->addr + s->stride, s->handle};
    /* not a branch: often foreseen wrongly */
    const uint64_t take = (uint64_t)((int64_t)(int8_t)s->mode >> 63) ^ -(uint64_t)other;
    return (struct ops_word){own.addr ^ ((own.addr ^ (near.addr + s->back)) & take),
                             own.handle ^ ((own.handle ^ near.handle) & take)};
}

/* A word was `far` back from the next, at a distance from what was there: refer to that from now on. */
static inline void shape_learn_near(struct ops_line *s, uint32_t far, uint64_t distance)
{
    s->mode = (uint8_t)(SHAPE_FROM_RECENT | far);
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

/* Of the decoder: the line of the shape that a token of a kind other than TOKEN_RUN names; 0 if that cannot
 * be. */
uint32_t ops_take_line(struct ops_decoder *d, enum ops_token kind);

#endif
