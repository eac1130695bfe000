/* tcmalloc.c - driver for Debian's tcmalloc (gperftools, libtcmalloc_minimal.so, found at run time).
 *
 * Its calls of sbrk and mmap land in the heap, also those that it makes while it is loaded. It runs with
 * its default settings, without profiler. The functions with names of its own are used, since
 * `malloc` itself would be found in the C library.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/driver.h"

#include <gperftools/tcmalloc.h>

static bool tc_init(void *base, size_t size)
{
    char *p = tc_malloc(1);
    bool inside = p >= (char *)base && p < (char *)base + size;
    tc_free(p);
    return inside;
}

static void *drv_malloc(size_t size, uint32_t id)
{
    return tc_malloc(size);
}

static void drv_free(void *ref, uint32_t id)
{
    tc_free(ref);
}

static void *drv_realloc(void *ref, size_t size, uint32_t id)
{
    return tc_realloc(ref, size);
}

static size_t drv_usable(void *ref)
{
    return tc_malloc_size(ref);
}

static const char *drv_package(void)
{
    return tc_version(NULL, NULL, NULL);
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "tcmalloc",
    .description = "tcmalloc of gperftools with its default settings (Debian: libgoogle-perftools-dev)",
    .confinement = STEVE_BY_SYMBOLS,
    .flags = STEVE_THREADS,
    .least_heap = (size_t)16 << 20,
    .package = drv_package,
    .init = tc_init,
    .malloc = drv_malloc,
    .free = drv_free,
    .realloc = drv_realloc,
    .usable = drv_usable,
};
