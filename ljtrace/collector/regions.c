/* regions.c - a sorted array of ranges; see regions.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A process has at most some 65,000 mappings (vm.max_map_count), and most programs map seldom, so moving the end of the array
 * costs less than a tree would.
 */
#include "ljtrace/collector/regions.h"
#include "ljtrace/collector/map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The first region that ends after an address. */
static uint32_t first_after(const struct regions *r, uint64_t addr)
{
    uint32_t low = 0, high = r->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (r->of[middle].start + r->of[middle].size <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Replace `n` regions from the i-th on by `m` others. */
static void replace(struct regions *r, uint32_t i, uint32_t n, const struct mt_region *by, uint32_t m)
{
    const uint32_t count = r->count - n + m;
    if (count > r->room) {
        r->room = 2 * count;
        r->of = grow(r->of, r->room, sizeof *r->of);
    }
    if (r->count > i + n)
        memmove(r->of + i + m, r->of + i + n, (r->count - i - n) * sizeof *r->of);
    if (m)
        memcpy(r->of + i, by, m * sizeof *by);
    r->count = count;
}

void regions_unmap(struct regions *r, uint64_t start, uint64_t size)
{
    const uint64_t end = start + size;
    const uint32_t first = first_after(r, start);
    struct mt_region rest[2];
    uint32_t n = 0, left = 0;
    if (size == 0 || end < start)
        return;
    while (first + n < r->count && r->of[first + n].start < end)
        n++;
    if (!n)
        return;
    const struct mt_region *begin = &r->of[first], *last = &r->of[first + n - 1];
    const uint64_t last_end = last->start + last->size;
    if (begin->start < start)
        rest[left++] = (struct mt_region){begin->start, start - begin->start, begin->stack};
    if (last_end > end)
        rest[left++] = (struct mt_region){end, last_end - end, last->stack};
    replace(r, first, n, rest, left);
}

void regions_map(struct regions *r, uint64_t start, uint64_t size, uint32_t stack)
{
    if (size == 0 || start + size < start)
        return;
    regions_unmap(r, start, size);
    replace(r, first_after(r, start), 0, &(struct mt_region){start, size, stack}, 1);
}

void regions_detach(struct regions *r, uint64_t start)
{
    const uint32_t i = first_after(r, start);
    if (i < r->count && r->of[i].start == start)
        replace(r, i, 1, NULL, 0);
}

void regions_fill(struct regions *r, uint64_t start, uint64_t size, uint32_t stack)
{
    const uint64_t end = start + size;
    if (end < start)
        return;
    for (uint32_t i = first_after(r, start); start < end; i++) {
        const bool is_last = i == r->count || r->of[i].start >= end;
        const uint64_t gap_end = is_last ? end : r->of[i].start;
        if (start < gap_end)
            replace(r, i++, 0, &(struct mt_region){start, gap_end - start, stack}, 1);
        start = is_last ? end : r->of[i].start + r->of[i].size;
    }
}

struct regions regions_copy(const struct regions *r)
{
    struct regions copy = {0};
    replace(&copy, 0, 0, r->of, r->count);
    return copy;
}

void regions_free(struct regions *r)
{
    free(r->of);
    *r = (struct regions){0};
}
