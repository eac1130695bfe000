/* jeff_compact.c - Jeff's compaction.
 *
 * Compaction is one pass over the blocks in order of address. Each block that is not locked moves down to the end of
 * the block before it. A locked block stays, and the free memory below it becomes one free block. The order of blocks
 * is kept, so that blocks allocated together stay together, and a pass that ends early leaves a valid heap. A pass
 * without a time limit reaches every free block. It therefore clears the lists at once, removes all free blocks
 * beforehand and never accesses their memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/allocators/jeff.h"

#include <string.h>
#include <time.h>

enum { BETWEEN_READINGS = 65536 }; /* bytes of work between two readings of the clock */

struct deadline {
    uint64_t end; /* nanoseconds; 0 = none */
    size_t work;
};

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_over(struct deadline *d, size_t work)
{
    d->work += work;
    if (!d->end || d->work < BETWEEN_READINGS)
        return false;
    d->work = 0;
    return now() >= d->end;
}

static bool is_free(const struct jeff_block *b)
{
    return b && !(b->size & JEFF_USED);
}

/* Make the memory from `to` up to b, or to the top, free. */
static void close_gap(struct jeff *j, char *to, struct jeff_block *b)
{
    if (!b)
        j->top = to;
    else if (b->memory > to) /* there is a spare header: that of a free block that was here */
        jeff_insert_free(j, to, b->memory, b);
}

static void slide(struct jeff *j, struct jeff_block *b, char *to)
{
    if (b->memory == to)
        return;
    memmove(to, b->memory, jeff_usable(b));
    b->memory = to;
    b->size &= ~(size_t)JEFF_WEAK;
    j->moved += jeff_usable(b);
}

/* Remove all free blocks in the order of their headers, which the processor can prefetch. Following the links from
 * block to block would wait for each header. */
static void drop_free(struct jeff *j)
{
    jeff_forget_free(j);
    for (uint32_t n = 1; n <= j->headers; n++) {
        struct jeff_block *b = jeff_header(j, n);
        if (is_free(b) && b->size) /* a spare header has no size */
            jeff_remove_forgotten(j, b);
    }
}

/* Remove the free blocks from b on, and return the first used block. */
static struct jeff_block *skip_free(struct jeff *j, struct jeff_block *b)
{
    while (is_free(b)) {
        struct jeff_block *above = jeff_header(j, b->above);
        jeff_remove_free(j, b);
        b = above;
    }
    return b;
}

bool jeff_compact(struct jeff *j, unsigned milliseconds)
{
    struct deadline d = {milliseconds ? now() + milliseconds * 1000000ull : 0, 0};
    bool over = false;
    if (!milliseconds)
        drop_free(j);
    struct jeff_block *b = skip_free(j, jeff_header(j, j->lowest));
    char *to = j->base;
    j->compactions++;
    while (b && !over) {
        __builtin_prefetch(jeff_header(j, b->above));
        if (b->size & JEFF_LOCKED)
            close_gap(j, to, b);
        else
            slide(j, b, to);
        to = b->memory + jeff_usable(b);
        over = is_over(&d, jeff_usable(b) + sizeof *b);
        b = skip_free(j, jeff_header(j, b->above));
    }
    close_gap(j, to, b);
    return !b;
}
