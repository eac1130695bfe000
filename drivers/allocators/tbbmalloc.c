/* tbbmalloc.c - driver for Debian's scalable allocator of oneTBB (libtbbmalloc.so, found at run time).
 *
 * Its calls of mmap and similar functions are served from the heap. It requests memory in regions of a megabyte or
 * more and keeps freed memory in caches of its own, so it needs a larger heap than most. It has its default settings.
 * C programs cannot query its version.
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
    .flags = STEVE_THREADS | STEVE_ALIGNS_TO_SIZE,
    .least_heap = (size_t)4 << 20,
    .init = forward_first_block_in_heap,
    FORWARDED,
};
