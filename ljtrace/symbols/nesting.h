/* nesting.h - ranges of numbers that lie within each other, such as the code of functions and of functions
 * inlined in them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Add all ranges, then sort them once; after that, the innermost range that contains a number is found by a
 * binary search.
 */
#ifndef LJTRACE_SYMBOLS_NESTING_H
#define LJTRACE_SYMBOLS_NESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers from `from` up to, and without, `to`. */
struct nesting_range {
    uint64_t from, to;
    uint32_t value;
    uint32_t around; /* index of the next larger range around it, or NESTING_NONE */
};

/* Returned if no range contains the number. */
#define NESTING_NONE UINT32_MAX

struct nesting {
    struct nesting_range *ranges;
    size_t count, capacity;
};

/* Add a range. Of equal ranges, the one with the greatest value is the innermost. Returns false when out of memory. */
bool nesting_add(struct nesting *n, uint64_t from, uint64_t to, uint32_t value);
/* Sort the ranges after the last one was added. */
void nesting_sort(struct nesting *n);
/* The value of the innermost range that contains a number, or NESTING_NONE. */
uint32_t nesting_find(const struct nesting *n, uint64_t number);
/* Continue with the range around the one that nesting_find has found: values from the innermost range on. Set *at to
 * NESTING_NONE before the first call, which returns the same as nesting_find. */
uint32_t nesting_next(const struct nesting *n, uint64_t number, uint32_t *at);
void nesting_free(struct nesting *n);

#endif
