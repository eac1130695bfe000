/* optimal.c - the lower bound: an ideal allocator that moves blocks at no cost.
 *
 * No allocator can need less than the live bytes, and one that could move every block at any time would need no more.
 * This one only counts: a block fits as long as the live bytes do. Its blocks have no addresses and no memory. The
 * difference to it is the loss of a real allocator.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

static char *s_base;
static size_t s_size, s_live;

static bool optimal_init(void *base, size_t size)
{
    s_base = base;
    s_size = size;
    s_live = 0;
    return true;
}

/* A ref is the block's size. */
static void *optimal_malloc(size_t size, uint32_t id)
{
    if (size > s_size - s_live)
        return NULL;
    s_live += size;
    return (void *)size;
}

static void optimal_free(void *ref, uint32_t id)
{
    s_live -= (size_t)ref;
}

static void *optimal_realloc(void *ref, size_t size, uint32_t id)
{
    if (size > s_size - s_live + (size_t)ref)
        return NULL;
    s_live += size - (size_t)ref;
    return (void *)size;
}

static size_t optimal_usable(void *ref)
{
    return (size_t)ref;
}

static void *optimal_highest(void)
{
    return s_base + s_live;
}

static bool optimal_walk(struct steve_walk *out)
{
    *out = (struct steve_walk){s_size - s_live, s_live < s_size, s_size - s_live};
    return true;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "optimal",
    .description = "lower bound: needs the live bytes and nothing else; no real allocator",
    .confinement = STEVE_IN_HEAP,
    .flags = STEVE_NO_MEMORY,
    .init = optimal_init,
    .malloc = optimal_malloc,
    .free = optimal_free,
    .realloc = optimal_realloc,
    .usable = optimal_usable,
    .highest = optimal_highest,
    .walk = optimal_walk,
};
