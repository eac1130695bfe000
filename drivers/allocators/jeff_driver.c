/* jeff_driver.c - the driver of Jeff, in three variants.
 *
 * It is compiled once for each: -DJEFF_COMPACTS=0|1 -DJEFF_COALESCES=0|1. The plain variant never moves a block,
 * although it could. It shows the cost of handles without their benefit. Compaction has no time limit.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/allocators/jeff.h"
#include "drivers/sdk/driver.h"

#if JEFF_COALESCES
#define JEFF_NAME "jeff-coalesce"
#define JEFF_TEXT "Jeff: handles and locks; compacts, and joins free neighbours at once"
#elif JEFF_COMPACTS
#define JEFF_NAME "jeff-compact"
#define JEFF_TEXT "Jeff: handles and locks; compacts when memory is short"
#else
#define JEFF_NAME "jeff"
#define JEFF_TEXT "Jeff: handles and locks, never compacts (to compare)"
#endif

static struct jeff s_jeff;

static bool drv_init(void *base, size_t size)
{
    return jeff_init(&s_jeff, base, size, JEFF_COALESCES);
}

static void *drv_malloc(size_t size, uint32_t id)
{
    return jeff_malloc(&s_jeff, size);
}

static void drv_free(void *ref, uint32_t id)
{
    jeff_free(&s_jeff, ref);
}

static void *drv_realloc(void *ref, size_t size, uint32_t id)
{
    return jeff_realloc(&s_jeff, ref, size);
}

static size_t drv_usable(void *ref)
{
    return jeff_usable(ref);
}

static void *drv_lock(void *ref)
{
    return jeff_lock(&s_jeff, ref);
}

static void drv_unlock(void *ref)
{
    jeff_unlock(&s_jeff, ref);
}

static void *drv_where(void *ref)
{
    return ((struct jeff_block *)ref)->memory;
}

/* As if the headers were on top of the blocks. Otherwise the result would always be the end of the heap. */
static void *drv_highest(void)
{
    return s_jeff.top + s_jeff.headers * sizeof(struct jeff_block);
}

/* If nothing is locked, compaction joins all free memory into one block, which is the largest possible. */
static size_t largest_in_one(size_t free)
{
    size_t header = s_jeff.spare || s_jeff.free_blocks ? 0 : sizeof(struct jeff_block);
    return free > header ? (free - header) & ~(size_t)15 : 0;
}

#if JEFF_COMPACTS
/* Compaction is not started if all free memory together is too small. */
static bool drv_compact(size_t wanted)
{
    if (wanted && largest_in_one(s_jeff.free_bytes + jeff_unused_bytes(&s_jeff)) < wanted)
        return false;
    jeff_compact(&s_jeff, 0);
    return jeff_largest(&s_jeff) >= wanted;
}
#endif

static bool drv_walk(struct steve_walk *out)
{
    size_t unused = jeff_unused_bytes(&s_jeff);
    *out = (struct steve_walk){s_jeff.free_bytes + unused, s_jeff.free_blocks + (unused > 0),
                               jeff_largest(&s_jeff)};
    if (JEFF_COMPACTS && !s_jeff.locked_blocks)
        out->largest = largest_in_one(out->free);
    return true;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = JEFF_NAME,
    .description = JEFF_TEXT,
    .confinement = STEVE_IN_HEAP,
    .flags = STEVE_MOVES,
    .least_heap = 128,
    .init = drv_init,
    .malloc = drv_malloc,
    .free = drv_free,
    .realloc = drv_realloc,
    .usable = drv_usable,
    .lock = drv_lock,
    .unlock = drv_unlock,
    .where = drv_where,
#if JEFF_COMPACTS
    .compact = drv_compact,
#endif
    .highest = drv_highest,
    .walk = drv_walk,
};
