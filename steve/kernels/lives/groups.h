/* groups.h - sums of lives of blocks by a number that they have: stack, thread or type.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_GROUPS_H
#define STEVE_KERNELS_LIVES_GROUPS_H

#include "memtrace/base/array.h"
#include "steve/kernels/base/life.h"

enum groups_key { GROUPS_BY_STACK, GROUPS_BY_THREAD, GROUPS_BY_FREE_THREAD, GROUPS_BY_TYPE };

/* Sums over the blocks of a group: an array with named columns. */
struct group {
    uint64_t blocks, resizes;
    uint64_t bytes;                   /* requested by New and Resizes */
    uint64_t size;                    /* at the end of life */
    uint64_t frees, foreign;          /* foreign: freed by another thread than made it */
    uint64_t live_blocks, live_bytes; /* never freed */
    uint64_t loads, stores, modifies, bytes_read, bytes_written;
    uint64_t used;          /* bytes */
    uint64_t shared;        /* blocks */
    uint64_t lifetimes;     /* operations, of all blocks */
    uint64_t most_bytes;    /* the largest block's */
    uint64_t most;          /* the most bytes that a block ever had */
    uint64_t resized;       /* blocks that were resized; of these: */
    uint64_t moves, copied; /* as in struct life */
    uint64_t first_size, last_size;
    uint64_t most_resizes;     /* of one block */
    uint64_t peak, peak_bytes; /* bytes live at that peak; of an older peak: see groups_settle */
    /* In a sample of the blocks all of these are estimates, but for those named `most`; these are the variances of
     * some. They are 0 otherwise, and in shards. */
    double variance_blocks, variance_bytes, variance_frees, variance_live_blocks, variance_live_bytes;
    double variance_peak_bytes, variance_resizes, variance_loads, variance_stores, variance_modifies;
    double variance_bytes_read, variance_bytes_written;
};

/* Only keys that occur have rows, in the order of their first lives, because a trace can have many stacks without
 * blocks. */
struct groups {
    struct group *rows;
    uint32_t *keys; /* of the rows */
    size_t n, room, keys_room;
    uint32_t *row_of; /* by key: index of its row plus 1, 0 = none */
    size_t row_of_room;
    enum groups_key key;
};

void groups_init(struct groups *g, enum groups_key key);
void groups_free(struct groups *g);
/* keep: a byte for each life, NULL = all. False when out of memory. */
bool groups_add(struct groups *g, const struct life *lives, const uint8_t *keep, size_t n);
/* Add n settled rows of another shard, each with its key. peak: the number in this sum of the peak that the rows are
 * of, 0 if it is no peak here. False when out of memory. */
bool groups_merge(struct groups *g, const uint32_t *keys, const struct group *rows, size_t n, uint64_t peak);
/* After all lives were added: remove what was live at peaks before the last one. peak: its number. */
void groups_settle(struct groups *g, uint64_t peak);

/* Add a row for a key that has none. NULL when out of memory. */
struct group *groups_begin_row(struct groups *g, uint32_t key);

/* ---- inline, because lives.c adds each life that ends -------------------------------------------- */

static inline uint32_t groups_key_of(enum groups_key key, const struct life *life)
{
    if (key == GROUPS_BY_STACK)
        return life->stack;
    if (key == GROUPS_BY_TYPE)
        return life->type;
    return key == GROUPS_BY_THREAD ? life->thread : life->free_thread;
}

static inline void groups_add_peak(struct group *g, uint64_t peak, uint64_t bytes, double variance)
{
    if (peak > g->peak) {
        g->peak = peak;
        g->peak_bytes = 0;
        g->variance_peak_bytes = 0;
    }
    if (peak == g->peak) {
        g->peak_bytes += bytes;
        g->variance_peak_bytes += variance;
    }
}

/* What the block adds to the variance of a sum to which it adds x. */
static inline double groups_variance(const struct life *life, uint64_t x)
{
    return mt_scaled_variance(life_scaled(life, x), x);
}

static inline void groups_add_variances(struct group *g, const struct life *life, uint64_t blocks)
{
    const double of_blocks = mt_scaled_variance(blocks, 1);

    g->variance_blocks += of_blocks;
    g->variance_bytes += groups_variance(life, life->bytes);
    g->variance_resizes += groups_variance(life, life->resizes);
    g->variance_loads += groups_variance(life, life->loads);
    g->variance_stores += groups_variance(life, life->stores);
    g->variance_modifies += groups_variance(life, life->modifies);
    g->variance_bytes_read += groups_variance(life, life->bytes_read);
    g->variance_bytes_written += groups_variance(life, life->bytes_written);
    if (life->freed) {
        g->variance_frees += of_blocks;
        return;
    }
    g->variance_live_blocks += of_blocks;
    g->variance_live_bytes += groups_variance(life, life->size);
}

static inline void groups_add_accesses(struct group *g, const struct life *life)
{
    g->loads += life_scaled(life, life->loads);
    g->stores += life_scaled(life, life->stores);
    g->modifies += life_scaled(life, life->modifies);
    g->bytes_read += life_scaled(life, life->bytes_read);
    g->bytes_written += life_scaled(life, life->bytes_written);
    g->used += life_scaled(life, life->used);
    g->shared += life_scaled(life, life->shared);
}

static inline void groups_keep_most(uint64_t *most, uint64_t value)
{
    if (value > *most)
        *most = value;
}

static inline void groups_add_resizes(struct group *g, const struct life *life)
{
    if (life->resizes == 0)
        return;
    g->resized += life_scaled(life, 1);
    g->resizes += life_scaled(life, life->resizes);
    g->moves += life_scaled(life, life->moves);
    g->copied += life_scaled(life, life->copied);
    g->first_size += life_scaled(life, life->first_size);
    g->last_size += life_scaled(life, life->size);
    groups_keep_most(&g->most_resizes, life->resizes);
}

static inline void groups_add_life(struct group *g, const struct life *life)
{
    const uint64_t blocks = life_scaled(life, 1), size = life_scaled(life, life->size),
                   at_peak = life_scaled(life, life->peak_bytes);

    g->blocks += blocks;
    g->bytes += life_scaled(life, life->bytes);
    g->size += size;
    g->frees += life->freed ? blocks : 0;
    g->foreign += life->freed && life->free_thread != life->thread ? blocks : 0;
    g->live_blocks += life->freed ? 0 : blocks;
    g->live_bytes += life->freed ? 0 : size;
    g->lifetimes += (life->died - life->born) * blocks;
    groups_keep_most(&g->most_bytes, life->size);
    groups_keep_most(&g->most, life->most);
    groups_add_resizes(g, life);
    groups_add_accesses(g, life);
    groups_add_peak(g, life->peak, at_peak, mt_scaled_variance(at_peak, life->peak_bytes));
    if (life->weight != 0)
        groups_add_variances(g, life, blocks);
}

/* The row of a key; NULL when out of memory. */
static inline struct group *groups_row(struct groups *g, uint32_t key)
{
    if (key < g->row_of_room && g->row_of[key])
        return &g->rows[g->row_of[key] - 1];
    return groups_begin_row(g, key);
}

/* Add one life; false when out of memory. */
static inline bool groups_take(struct groups *g, const struct life *life)
{
    struct group *row = groups_row(g, groups_key_of(g->key, life));

    if (row)
        groups_add_life(row, life);
    return row != NULL;
}

#endif
