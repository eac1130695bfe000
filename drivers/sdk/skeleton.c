/* skeleton.c - the start for a new driver: a complete one, with the simplest allocator that frees.
 *
 * Copy this file, put your allocator into the functions, build it as a shared object
 *     cc -O2 -fPIC -shared -I/usr/local/include/steve -o mine.so mine.c
 * and test it with
 *     steve-replay --allocator ./mine.so --allocstats some-ops -o result --check
 * docs/writing-a-driver.md explains more. This allocator returns slots of one size and keeps free slots in a list. It
 * rejects blocks larger than a slot.
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

/* The heap is yours from now on: `size` zeroed bytes at `base`. Keep your bookkeeping data in it, too, so that its
 * size is measured. */
static bool my_init(void *base, size_t size)
{
    s_top = base;
    s_end = s_top + size / SLOT * SLOT;
    s_free = NULL;
    return size >= SLOT;
}

/* Return NULL if there is no room. Never allocate memory elsewhere. */
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

/* Optional: the usable size of the block. The difference to the requested size is shown as overhead. */
static size_t my_usable(void *ref)
{
    return SLOT;
}

/* Optional, but an allocator that works in the heap by itself should report which part of the heap it uses. */
static void *my_highest(void)
{
    return s_top;
}

/* Optional: report exactly what is free, if you can. */
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

/* Functions that are missing here are NULL: this allocator never moves blocks, so it needs no lock and unlock, and
 * it has no way to make room. */
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
