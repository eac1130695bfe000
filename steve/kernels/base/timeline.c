/* timeline.c - bins that merge when they run out; timeline.h says how.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "steve/kernels/base/timeline.h"

#include <stdlib.h>

bool timeline_init(struct timeline *t, uint32_t capacity)
{
    *t = (struct timeline){.capacity = capacity, .width = 1, .next = 1};
    t->bins = calloc(capacity, sizeof *t->bins);
    return t->bins != NULL;
}

uint64_t timeline_width(const struct timeline *t, uint64_t total)
{
    uint64_t width = 1;

    while (total / width >= t->capacity)
        width *= 2;
    return width;
}

void timeline_begin(struct timeline *t, uint64_t operations, uint64_t total)
{
    t->begin = operations;
    t->width = timeline_width(t, total);
    t->next = (operations / t->width + 1) * t->width;
}

void timeline_destroy(struct timeline *t)
{
    free(t->bins);
    t->bins = NULL;
}

static void halve(struct timeline *t)
{
    for (uint32_t i = 0; i < t->used / 2; i++) {
        struct timeline_bin bin = t->bins[2 * i];

        timeline_bin_merge(&bin, &t->bins[2 * i + 1]);
        t->bins[i] = bin;
    }
    t->used /= 2;
    t->width *= 2;
}

static void close_bin(struct timeline *t, const struct timeline_now *now)
{
    struct timeline_bin *b = &t->bins[t->used++];
    *b = t->open;
    b->operations_end = now->operations;
    b->time_end = now->time;
    b->allocated_end = now->allocated;
    b->live_bytes_end = now->live_bytes;
    b->live_blocks_end = now->live_blocks;
}

void timeline_turn(struct timeline *t, const struct timeline_now *now)
{
    close_bin(t, now);
    if (t->used == t->capacity)
        halve(t);
    t->open = (struct timeline_bin){.live_bytes_most = now->live_bytes, .live_blocks_most = now->live_blocks};
    t->next = now->operations + t->width;
}

void timeline_finish(struct timeline *t, const struct timeline_now *now)
{
    uint64_t start = t->used ? t->bins[t->used - 1].operations_end : t->begin;
    if (now->operations > start && t->used < t->capacity) /* all are full only if shards do not fit together */
        close_bin(t, now);
    else if (t->used && start % t->width) /* the last shard had no operations, but perhaps later events */
        t->bins[t->used - 1].time_end = now->time;
}

void timeline_append(struct timeline *t, const struct timeline_bin *bin)
{
    struct timeline_bin *last = t->used ? &t->bins[t->used - 1] : NULL;

    if (last && last->operations_end % t->width)
        timeline_bin_merge(last, bin);
    else if (t->used < t->capacity)
        t->bins[t->used++] = *bin;
}
