/* keyed_rows.h - which row belongs to which key, for sums that have rows only for the keys that occur.
 *
 * A trace can have many more stacks than stacks with blocks, because all callers are stacks, too. The rows themselves
 * belong to the caller. New rows are 0.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_KEYED_ROWS_H
#define STEVE_KERNELS_BASE_KEYED_ROWS_H

#include "memtrace/base/array.h"

struct keyed_rows {
    uint32_t *keys; /* of the rows, in the order in which they were made */
    size_t n, keys_room, rows_room;
    uint32_t *row_of; /* by key: index of its row plus 1, 0 = none */
    size_t row_of_room;
};

static inline void keyed_rows_free(struct keyed_rows *k)
{
    free(k->keys);
    free(k->row_of);
}

/* Have a row of a size for a key; false when out of memory. rows: the array, which may move. */
static inline bool keyed_rows_reach(struct keyed_rows *k, uint32_t key, void *rows, size_t size,
                                    size_t *index)
{
    char *at;

    if (key < k->row_of_room && k->row_of[key]) {
        *index = k->row_of[key] - 1;
        return true;
    }
    if (!array_grow(&k->row_of, &k->row_of_room, (size_t)key + 1, sizeof *k->row_of) ||
        !array_reserve(&k->keys, &k->keys_room, k->n + 1, sizeof *k->keys) ||
        !array_reserve(rows, &k->rows_room, k->n + 1, size))
        return false;
    memcpy(&at, rows, sizeof at);
    memset(at + k->n * size, 0, size);
    k->keys[k->n] = key;
    *index = k->n++;
    k->row_of[key] = (uint32_t)k->n;
    return true;
}

#endif
