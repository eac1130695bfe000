/* groups.h - sums of lives of blocks by a number that they have: stack, thread or type.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_GROUPS_H
#define STEVE_KERNELS_LIVES_GROUPS_H

#include "steve/kernels/base/sums.h"
#include "steve/kernels/base/keyed_rows.h"

enum groups_key {
    GROUPS_BY_STACK,
    GROUPS_BY_THREAD,
    GROUPS_BY_FREE_THREAD,
    GROUPS_BY_TYPE,
    GROUPS_BY_HEAP,
    GROUPS_BY_HOW
};

/* Only keys that occur have rows, in the order of their first lives, because a trace can have many stacks without
 * blocks. */
struct groups {
    struct group *rows;
    struct keyed_rows of_keys;
    struct group_variances *variances; /* of the first rows; of a trace that is no sample none */
    size_t variances_room;
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

/* Add the variances of a life of a sample to those of its row, before the life itself. False when out of memory. */
bool groups_vary(struct groups *g, const struct group *row, const struct life *life);

/* ---- inline, because lives.c adds each life that ends -------------------------------------------- */

static inline uint32_t groups_key_of(enum groups_key key, const struct life *life)
{
    if (key == GROUPS_BY_STACK)
        return life->stack;
    if (key == GROUPS_BY_TYPE)
        return life->type;
    if (key == GROUPS_BY_HEAP)
        return life->heap;
    if (key == GROUPS_BY_HOW)
        return life->how;
    return key == GROUPS_BY_THREAD ? life->thread : life->free_thread;
}

/* Add bytes that are live at a peak to those of a row, of which `last` is the last peak that it has any of. */
static inline void groups_add_peak(uint64_t *last, uint64_t *peak_bytes, uint64_t peak, uint64_t bytes)
{
    if (peak > *last) {
        *last = peak;
        *peak_bytes = 0;
    }
    if (peak == *last)
        *peak_bytes += bytes;
}

static inline void groups_add_life(struct group *g, const struct life *life)
{
    group_add(g, life);
    groups_add_peak(&g->peak, &g->peak_bytes, life->peak, life_scaled(life, life->peak_bytes));
}

/* The row of a key; NULL when out of memory. */
static inline struct group *groups_row(struct groups *g, uint32_t key)
{
    size_t index;

    return keyed_rows_reach(&g->of_keys, key, &g->rows, sizeof *g->rows, &index) ? &g->rows[index] : NULL;
}

/* Add one life; false when out of memory. */
static inline bool groups_take(struct groups *g, const struct life *life)
{
    struct group *row = groups_row(g, groups_key_of(g->key, life));

    if (!row || (life->weight != 0 && !groups_vary(g, row, life)))
        return false;
    groups_add_life(row, life);
    return true;
}

#endif
