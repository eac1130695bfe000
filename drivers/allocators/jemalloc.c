/* jemalloc.c - driver for Debian's jemalloc.
 *
 * By default, libjemalloc.so cannot be opened at run time, because it needs more static thread-local storage than the
 * dynamic linker reserves. Its static archive is therefore linked into this driver, and steve-replay starts the
 * driver's process with more of that storage. Its calls of mmap and similar functions are served from the heap. It
 * has its default settings. The driver calls the functions with names that only jemalloc has, because `malloc` would
 * be that of the C library.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <jemalloc/jemalloc.h>

static bool je_init(void *base, size_t size)
{
    void *p = mallocx(1, 0);
    if (!p)
        return false;
    dallocx(p, 0);
    return true;
}

static void *je_malloc(size_t size, uint32_t id)
{
    return mallocx(size, 0);
}

static void je_free(void *ref, uint32_t id)
{
    dallocx(ref, 0);
}

static void *je_realloc(void *ref, size_t size, uint32_t id)
{
    return rallocx(ref, size, 0);
}

static size_t je_usable(void *ref)
{
    return sallocx(ref, 0);
}

static const char *je_package(void)
{
    return JEMALLOC_VERSION;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "jemalloc",
    .description = "jemalloc with its default settings (Debian: libjemalloc-dev, linked statically)",
    .confinement = STEVE_BY_SYMBOLS,
    .flags = STEVE_THREADS | STEVE_ALIGNS_TO_SIZE,
    .least_heap = (size_t)32 << 20,
    .package = je_package,
    .init = je_init,
    .malloc = je_malloc,
    .free = je_free,
    .realloc = je_realloc,
    .usable = je_usable,
};
