/* tcmalloc.c - driver for Debian's tcmalloc (gperftools).
 *
 * The allocator is libtcmalloc_minimal.so, a shared library that is loaded with the driver. Its calls of sbrk and mmap
 * are served from the heap, including those that it makes while it is loaded. It has its default settings, without
 * profiler. The driver calls the functions with names that only tcmalloc has, because `malloc` would be that of the C
 * library.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <gperftools/tcmalloc.h>

#define FORWARD_MALLOC tc_malloc
#define FORWARD_FREE tc_free
#define FORWARD_REALLOC tc_realloc
#define FORWARD_USABLE tc_malloc_size
#include "drivers/allocators/forward.h"

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
    .flags = STEVE_THREADS | STEVE_ALIGNS_TO_SIZE,
    .least_heap = (size_t)16 << 20,
    .package = drv_package,
    .init = forward_first_block_in_heap,
    FORWARDED,
};
