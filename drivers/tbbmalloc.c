/* tbbmalloc.c - driver for Debian's scalable allocator of oneTBB (libtbbmalloc.so, found at run time).
 *
 * Its calls of mmap and friends land in the heap. It takes memory in regions of a megabyte or more and keeps
 * what is freed in caches of its own, so that it needs a larger heap than most. Default settings. It tells C
 * programs no version.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/driver.h"

#include <tbb/scalable_allocator.h>

static bool tbb_init(void *base, size_t size)
{
    char *p = scalable_malloc(1);
    bool inside = p >= (char *)base && p < (char *)base + size;
    scalable_free(p);
    return inside;
}

static void *tbb_malloc(size_t size, uint32_t id)
{
    return scalable_malloc(size);
}

static void tbb_free(void *ref, uint32_t id)
{
    scalable_free(ref);
}

static void *tbb_realloc(void *ref, size_t size, uint32_t id)
{
    return scalable_realloc(ref, size);
}

static size_t tbb_usable(void *ref)
{
    return scalable_msize(ref);
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "tbbmalloc",
    .description = "oneTBB's scalable allocator with its default settings (Debian: libtbb-dev)",
    .confinement = STEVE_BY_SYMBOLS,
    .flags = STEVE_THREADS,
    .least_heap = (size_t)4 << 20,
    .init = tbb_init,
    .malloc = tbb_malloc,
    .free = tbb_free,
    .realloc = tbb_realloc,
    .usable = tbb_usable,
};
