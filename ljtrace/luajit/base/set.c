/* set.c - a set of elements that are ordered by a number.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/set.h"
#include "ljtrace/luajit/host.h"
#include <string.h>

/* The index of the first element above a number. */
static uint32_t above(const struct lt_set *set, uint64_t number)
{
    uint32_t low = 0, high = set->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (*set->element[middle] <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void *lt_set_below(const struct lt_set *set, uint64_t number)
{
    const uint32_t i = above(set, number);
    return i ? set->element[i - 1] : NULL;
}

void *lt_set_find(const struct lt_set *set, uint64_t number)
{
    uint64_t *element = lt_set_below(set, number);
    return element && *element == number ? element : NULL;
}

/* Move the elements from one index on to another one. */
static void move(struct lt_set *set, uint32_t from, uint32_t to)
{
    memmove(&set->element[to], &set->element[from], (set->count - from) * sizeof *set->element);
    set->count += to - from;
}

void lt_set_add(struct lt_set *set, void *element)
{
    const uint32_t i = above(set, *(uint64_t *)element);
    if (set->count == set->room) {
        set->room = 2 * set->room + 32;
        set->element = host_resize(set->element, set->room * sizeof *set->element);
    }
    move(set, i, i + 1);
    set->element[i] = element;
}

void lt_set_remove(struct lt_set *set, const void *element)
{
    const uint32_t i = above(set, *(const uint64_t *)element);
    if (i && set->element[i - 1] == element)
        move(set, i, i - 1);
}

void lt_set_clear(struct lt_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        host_free(set->element[i]);
    host_free(set->element);
    *set = (struct lt_set){0};
}
