/* skeleton.c - where a new driver starts: a whole one, of the simplest allocator that frees.
 *
 * Copy this file, put your allocator behind the functions, build it as a shared object
 *     cc -O2 -fPIC -shared -I/usr/local/include/steve -o mine.so mine.c
 * and try it with
 *     steve-replay --allocator ./mine.so --allocstats some-ops -o result --check
 * docs/writing-a-driver.md tells more. This one hands out slots of one size and keeps the free ones in a
 * list; it refuses blocks larger than a slot.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#if __has_include("drivers/sdk/driver.h")
#include "drivers/sdk/driver.h"
#else
#include "driver.h"
#endif

enum { SLOT = 4096 };

struct slot {
    struct slot *next;
};

static char *s_top, *s_end;
static struct slot *s_free;

/* The heap is yours from here on: `size` zeroed bytes at `base`. Keep your bookkeeping in it too, so
 * that what it costs is seen. */
static bool my_init(void *base, size_t size)
{
    s_top = base;
    s_end = s_top + size / SLOT * SLOT;
    s_free = NULL;
    return size >= SLOT;
}

/* NULL when there is no room; never take memory from anywhere else. */
static void *my_malloc(size_t size, uint32_t id)
{
    if (size > SLOT)
        return NULL;
    if (s_free) {
        struct slot *s = s_free;
        s_free = s->next;
        return s;
    }
    if (s_top == s_end)
        return NULL;
    s_top += SLOT;
    return s_top - SLOT;
}

static void my_free(void *ref, uint32_t id)
{
    struct slot *s = ref;
    s->next = s_free;
    s_free = s;
}

/* Optional: what the block really has. The difference to what was asked for is shown as overhead. */
static size_t my_usable(void *ref)
{
    return SLOT;
}

/* Optional, but an allocator that works in the heap by itself should tell how far it has come. */
static void *my_highest(void)
{
    return s_top;
}

/* Optional: say exactly what is free, if you can. */
static bool my_walk(struct steve_walk *out)
{
    out->free = (size_t)(s_end - s_top);
    out->chunks = out->free ? 1 : 0;
    out->largest = out->free || s_free ? SLOT : 0;
    for (struct slot *s = s_free; s; s = s->next) {
        out->free += SLOT;
        out->chunks++;
    }
    return true;
}

/* What is left out is NULL: this allocator never moves blocks, so it needs no lock and unlock, and it
 * has no way to make room. */
const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "skeleton",
    .description = "skeleton of a driver: slots of one size",
    .confinement = STEVE_IN_HEAP,
    .least_heap = SLOT,
    .init = my_init,
    .malloc = my_malloc,
    .free = my_free,
    .usable = my_usable,
    .highest = my_highest,
    .walk = my_walk,
};
