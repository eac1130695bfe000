/* islands.c - keeps the parts of the heap that have blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/islands.h"

#include <string.h>

enum { PAGE = 4096 };

/* The first island that ends at `offset` - LEAST_GAP or later; s->count if there is none. */
static uint32_t first_near(const struct islands *s, uint64_t offset)
{
    uint32_t low = 0, high = s->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (s->of[middle].to + LEAST_GAP <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Replace islands i and those after it up to, not including, `end` by the first of them. */
static void drop_after(struct islands *s, uint32_t i, uint32_t end)
{
    memmove(&s->of[i + 1], &s->of[end], (s->count - end) * sizeof s->of[0]);
    s->count -= end - i - 1;
}

static void join_nearest(struct islands *s)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i + 1 < s->count; i++)
        if (s->of[i + 1].from - s->of[i].to < s->of[best + 1].from - s->of[best].to)
            best = i;
    s->of[best].to = s->of[best + 1].to;
    drop_after(s, best, best + 2);
}

static void insert(struct islands *s, uint32_t i, struct island new)
{
    memmove(&s->of[i + 1], &s->of[i], (s->count - i) * sizeof s->of[0]);
    s->of[i] = new;
    s->count++;
}

/* Extend island i, and join it with those that are then near. */
static void extend(struct islands *s, uint32_t i, uint64_t from, uint64_t to)
{
    struct island *one = &s->of[i];
    uint32_t end = i + 1;
    one->from = from < one->from ? from : one->from;
    one->to = to > one->to ? to : one->to;
    for (; end < s->count && s->of[end].from < one->to + LEAST_GAP; end++)
        one->to = s->of[end].to > one->to ? s->of[end].to : one->to;
    drop_after(s, i, end);
}

void islands_add(struct islands *s, uint64_t from, uint64_t to)
{
    uint32_t i = first_near(s, from);
    if (i < s->count && s->of[i].from < to + LEAST_GAP) {
        extend(s, i, from, to);
        return;
    }
    if (s->count == MOST_ISLANDS) {
        join_nearest(s);
        islands_add(s, from, to);
        return;
    }
    insert(s, i, (struct island){from, to});
}

void islands_round(struct islands *s)
{
    for (uint32_t i = 0; i + 1 < s->count; i++) {
        s->of[i].to = (s->of[i].to / PAGE + 2) * PAGE;
        s->of[i + 1].from = (s->of[i + 1].from / PAGE - 1) * PAGE;
    }
}

uint64_t islands_bytes(const struct islands *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->count; i++)
        sum += s->of[i].to - s->of[i].from;
    return sum;
}

uint64_t islands_place(const struct islands *s, uint64_t offset)
{
    uint64_t before = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct island *one = &s->of[i];
        if (offset < one->from)
            break;
        if (offset < one->to)
            return before + offset - one->from;
        before += one->to - one->from;
    }
    return UINT64_MAX;
}
