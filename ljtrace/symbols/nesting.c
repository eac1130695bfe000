/* nesting.c - sort ranges that lie within each other, and find the innermost one that contains a number.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/symbols/nesting.h"
#include <stdlib.h>

bool nesting_add(struct nesting *n, uint64_t from, uint64_t to, uint32_t value)
{
    if (n->count == NESTING_NONE)
        return false;
    if (n->count == n->capacity) {
        size_t capacity = n->capacity * 2 + 64;
        struct nesting_range *ranges = realloc(n->ranges, capacity * sizeof *ranges);
        if (!ranges)
            return false;
        n->ranges = ranges;
        n->capacity = capacity;
    }
    n->ranges[n->count++] = (struct nesting_range){from, to, value, NESTING_NONE};
    return true;
}

/* Outer ranges come before the ranges within them. */
static int by_place(const void *a, const void *b)
{
    const struct nesting_range *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to > y->to ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

void nesting_sort(struct nesting *n)
{
    if (n->count)
        qsort(n->ranges, n->count, sizeof *n->ranges, by_place);
    uint32_t around = NESTING_NONE;
    for (uint32_t i = 0; i < n->count; i++) {
        while (around != NESTING_NONE && n->ranges[around].to <= n->ranges[i].from)
            around = n->ranges[around].around;
        n->ranges[i].around = around;
        around = i;
    }
}

/* The last range that begins at or before a number, or NESTING_NONE. */
static uint32_t last_before(const struct nesting *n, uint64_t number)
{
    size_t low = 0, high = n->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (n->ranges[middle].from <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? (uint32_t)low - 1 : NESTING_NONE;
}

uint32_t nesting_next(const struct nesting *n, uint64_t number, uint32_t *at)
{
    *at = *at == NESTING_NONE ? last_before(n, number) : n->ranges[*at].around;
    while (*at != NESTING_NONE && n->ranges[*at].to <= number)
        *at = n->ranges[*at].around;
    return *at == NESTING_NONE ? NESTING_NONE : n->ranges[*at].value;
}

uint32_t nesting_find(const struct nesting *n, uint64_t number)
{
    uint32_t at = NESTING_NONE;
    return nesting_next(n, number, &at);
}

void nesting_free(struct nesting *n)
{
    free(n->ranges);
    *n = (struct nesting){0};
}
