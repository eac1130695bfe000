/* keyed_rows.h - which row belongs to which key, for sums that have rows only for the keys that occur.
 *
 * A trace can have many more stacks than stacks with blocks, because all callers are stacks, too. So this is a hash table
 * with linear probing, at most half full. The rows themselves belong to the caller. New rows are 0.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_KEYED_ROWS_H
#define STEVE_KERNELS_BASE_KEYED_ROWS_H

#include "memtrace/base/array.h"

struct keyed_rows {
    uint32_t *keys; /* of the rows, in the order in which they were made */
    size_t n, keys_room, rows_room;
    uint32_t *slots; /* indices of rows plus 1, 0 = free */
    unsigned bits;   /* of the number of slots, which is a power of 2; 0: there are none yet */
};

static inline void keyed_rows_free(struct keyed_rows *k)
{
    free(k->keys);
    free(k->slots);
}

/* The slot of a key, or the free one that it would get. There must be slots. */
static inline uint32_t *keyed_rows_slot(const struct keyed_rows *k, uint32_t key)
{
    const size_t mask = ((size_t)1 << k->bits) - 1;
    size_t i = (key * 0x9E3779B97F4A7C15u) >> (64 - k->bits);

    while (k->slots[i] && k->keys[k->slots[i] - 1] != key)
        i = (i + 1) & mask;
    return &k->slots[i];
}

/* Twice the slots; false when out of memory. */
static inline bool keyed_rows_more_slots(struct keyed_rows *k)
{
    const unsigned bits = k->bits ? k->bits + 1 : 4;
    uint32_t *slots = calloc((size_t)1 << bits, sizeof *slots);

    if (!slots)
        return false;
    free(k->slots);
    k->slots = slots;
    k->bits = bits;
    for (size_t i = 0; i < k->n; i++)
        *keyed_rows_slot(k, k->keys[i]) = (uint32_t)i + 1;
    return true;
}

/* The row of a key that has one. */
static inline size_t keyed_rows_index(const struct keyed_rows *k, uint32_t key)
{
    return *keyed_rows_slot(k, key) - 1;
}

/* Have a row of a size for a key; false when out of memory. rows: the array, which may move. */
static inline bool keyed_rows_reach(struct keyed_rows *k, uint32_t key, void *rows, size_t size,
                                    size_t *index)
{
    uint32_t *slot;
    char *at;

    if ((!k->bits || k->n >= (size_t)1 << (k->bits - 1)) && !keyed_rows_more_slots(k))
        return false;
    slot = keyed_rows_slot(k, key);
    if (*slot) {
        *index = *slot - 1;
        return true;
    }
    if (!array_reserve(&k->keys, &k->keys_room, k->n + 1, sizeof *k->keys) ||
        !array_reserve(rows, &k->rows_room, k->n + 1, size))
        return false;
    memcpy(&at, rows, sizeof at);
    memset(at + k->n * size, 0, size);
    k->keys[k->n] = key;
    *index = k->n++;
    *slot = (uint32_t)k->n;
    return true;
}

#endif
