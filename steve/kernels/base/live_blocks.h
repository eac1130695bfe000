/* live_blocks.h - the live blocks by slot, with the heap and the stack that each belongs to: of a trace, or of a shard.
 *
 * Analyses that count live blocks by stack share this. A shard begins with the blocks that live there, whose stacks
 * are not known (LIVE_BEFORE). It lists the slots of those that end in it, in their order (`ended`). A Resize ends a
 * block too, and makes another one in the same slot. At the end of the shard, live_blocks_list makes a list of the
 * blocks that were made in it. Shards are joined in their order: the caller removes the blocks that ended, whose stacks
 * the shards before them know, then calls live_blocks_merge.
 *
 * Memory: O(most live blocks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_LIVE_BLOCKS_H
#define STEVE_KERNELS_BASE_LIVE_BLOCKS_H

#include "memtrace/base/array.h"
#include "memtrace/sample.h"

enum live_state { LIVE_NONE, LIVE_BEFORE, LIVE_HERE };

struct live_block {
    uint64_t size;     /* bytes, and */
    uint64_t blocks;   /* blocks, in a sample those that it stands for (memtrace/sample.h) */
    uint64_t recorded; /* its own bytes */
    uint64_t requested,
        resizes;   /* so far: its own bytes by its New and Resizes, and how many of these there were */
    double weight; /* of a sample; else 0 */
    uint32_t stack;
    uint32_t heap : 29, container : 1, state : 2;
};

/* A block that was made in a shard and lives at its end. */
struct live_at {
    struct live_block block;
    uint32_t slot;
};

struct live_blocks {
    struct live_block *at; /* by slot */
    size_t room;
    uint32_t *ended;
    size_t n_ended, ended_room;
    struct live_at *list;
    size_t n_list, list_room;
};

/* The block that a New makes, with its sizes. */
static inline struct live_block live_block_of(const struct mt_event *e)
{
    const double weight = mt_event_weight(e);

    return (struct live_block){.size = mt_scaled(weight, e->size),
                               .blocks = mt_scaled(weight, 1),
                               .recorded = e->size,
                               .requested = e->size,
                               .weight = weight,
                               .container = e->container};
}

/* The block that a Resize makes of another one. If that did not live, its New is missing in a damaged trace. */
static inline struct live_block live_block_resized(const struct live_block *b, const struct mt_event *e)
{
    const double weight = b->state == LIVE_NONE ? 0 : b->weight;

    return (struct live_block){.size = mt_scaled(weight, e->size),
                               .blocks = mt_scaled(weight, 1),
                               .recorded = e->size,
                               .requested = (b->state == LIVE_NONE ? 0 : b->requested) + e->size,
                               .resizes = (b->state == LIVE_NONE ? 0 : b->resizes) + 1,
                               .weight = weight,
                               .container = e->container};
}

/* The bytes of the block that count as live: none, if another allocator divides it into blocks of its own. */
static inline uint64_t live_block_held(const struct live_block *b)
{
    return b->container ? 0 : b->size;
}

/* The variance of these bytes. */
static inline double live_block_held_variance(const struct live_block *b)
{
    return b->container ? 0 : mt_scaled_variance(b->size, b->recorded);
}

/* By what the variance of a sum grows when a block adds x to it, after it has added `before`. All that a block adds is
 * in the sample or nothing is. */
static inline double live_block_variance(const struct live_block *b, uint64_t before, uint64_t x)
{
    const uint64_t after = before + x;

    return mt_scaled_variance(mt_scaled(b->weight, after), after) -
           mt_scaled_variance(mt_scaled(b->weight, before), before);
}

void live_blocks_free(struct live_blocks *b);
/* Enter a block that lives where the shard begins. False when out of memory. */
bool live_blocks_enter(struct live_blocks *b, const struct mt_live_block *live);
/* List the blocks that were made in the shard and live now. False when out of memory. */
bool live_blocks_list(struct live_blocks *b);
/* Add the list of the next shard. False when out of memory. */
bool live_blocks_merge(struct live_blocks *whole, const struct live_at *list, size_t n);

/* What lives in a slot; NULL when out of memory. It is valid until the next call. */
static inline struct live_block *live_blocks_reach(struct live_blocks *b, uint32_t slot)
{
    return array_grow(&b->at, &b->room, (size_t)slot + 1, sizeof *b->at) ? &b->at[slot] : NULL;
}

/* List a block of before the shard that ends. False when out of memory. */
bool live_blocks_note_ended(struct live_blocks *b, uint32_t slot);

/* The block in a slot, which ended in a later shard; NULL if there is none, because the trace is damaged. */
static inline struct live_block *live_blocks_found(struct live_blocks *b, uint32_t slot)
{
    return slot < b->room && b->at[slot].state == LIVE_HERE ? &b->at[slot] : NULL;
}

#endif
