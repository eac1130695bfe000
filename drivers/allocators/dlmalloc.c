/* dlmalloc.c - driver for Doug Lea's malloc (dlmalloc 2.8.6), with an mspace.
 *
 * No Debian package provides it separately, but the source package of wasi-libc contains its only file unchanged.
 * drivers/allocators/fetch-dlmalloc downloads that file, and configure --with-dlmalloc=FILE compiles it into this
 * driver (dlmalloc_source.h, which configure makes, includes it). It is configured to request no memory from the
 * system, to use no locks, and to end the process when it finds an error.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <stdio.h>

/* leave out the additions of wasi-libc */
#define __wasilibc_unmodified_upstream 1
#define ONLY_MSPACES 1
#define HAVE_MMAP 0
#define HAVE_MORECORE 0
#define USE_LOCKS 0
#define NO_MALLOC_STATS 1
#define MALLOC_FAILURE_ACTION
#include "drivers/allocators/dlmalloc_source.h"

static mspace s_space;

static bool drv_init(void *base, size_t size)
{
    s_space = create_mspace_with_base(base, size, 0);
    return s_space != NULL;
}

static void *drv_malloc(size_t size, uint32_t id)
{
    return mspace_malloc(s_space, size);
}

static void drv_free(void *ref, uint32_t id)
{
    mspace_free(s_space, ref);
}

static void *drv_realloc(void *ref, size_t size, uint32_t id)
{
    return mspace_realloc(s_space, ref, size);
}

static size_t drv_usable(void *ref)
{
    return mspace_usable_size(ref);
}

/* The last chunk is the rest of the heap, which no block has used since. */
static void *drv_highest(void)
{
    return ((mstate)s_space)->top;
}

static bool drv_walk(struct steve_walk *out)
{
    struct mallinfo m = mspace_mallinfo(s_space);
    *out = (struct steve_walk){.free = m.fordblks, .chunks = m.ordblks};
    return true;
}

/* The size of the chunk. */
static size_t drv_header(void *ref)
{
    return sizeof(size_t);
}

static const char *drv_package(void)
{
    static char text[] = "2.8.6";
    snprintf(text, sizeof text, "%d.%d.%d", DLMALLOC_VERSION / 10000 % 10, DLMALLOC_VERSION / 100 % 10,
             DLMALLOC_VERSION % 10);
    return text;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "dlmalloc",
    .description = "Doug Lea's malloc in an mspace (its source is in Debian's source package wasi-libc)",
    .confinement = STEVE_IN_HEAP,
    .least_heap = 4096,
    .package = drv_package,
    .init = drv_init,
    .malloc = drv_malloc,
    .free = drv_free,
    .realloc = drv_realloc,
    .usable = drv_usable,
    .highest = drv_highest,
    .walk = drv_walk,
    .header = drv_header,
};
