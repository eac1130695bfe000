/* tbbmalloc.c - driver for Debian's scalable allocator of oneTBB (libtbbmalloc.so, found at run time).
 *
 * Its calls of mmap and friends land in the heap. It takes memory in regions of a megabyte or more and keeps
 * what is freed in caches of its own, so that it needs a larger heap than most. Default settings. It tells C
 * programs no version.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <tbb/scalable_allocator.h>

#define FORWARD_MALLOC scalable_malloc
#define FORWARD_FREE scalable_free
#define FORWARD_REALLOC scalable_realloc
#define FORWARD_USABLE scalable_msize
#include "drivers/allocators/forward.h"

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "tbbmalloc",
    .description = "oneTBB's scalable allocator with its default settings (Debian: libtbb-dev)",
    .confinement = STEVE_BY_SYMBOLS,
    .flags = STEVE_THREADS,
    .least_heap = (size_t)4 << 20,
    .init = forward_begins_inside,
    FORWARDED,
};
