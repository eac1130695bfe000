/* scudo.c - driver for scudo, LLVM's hardened allocator (standalone, from compiler-rt's static archive).
 *
 * It reserves some 180 GiB of addresses at its start and makes small parts of that usable; large blocks are
 * mappings of their own. It runs with its default settings; blocks are placed at random, so that no two runs
 * are alike.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/driver.h"

#include <malloc.h>
#include <stdlib.h>

/* The archive's functions have the plain names and are bound to within this object. */
static bool drv_init(void *base, size_t size)
{
    void *p = malloc(1);
    free(p);
    return p != NULL;
}

static void *drv_malloc(size_t size, uint32_t id)
{
    return malloc(size);
}

static void drv_free(void *ref, uint32_t id)
{
    free(ref);
}

static void *drv_realloc(void *ref, size_t size, uint32_t id)
{
    return realloc(ref, size);
}

static size_t drv_usable(void *ref)
{
    return malloc_usable_size(ref);
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "scudo",
    .description = "scudo, LLVM's hardened allocator, with its default settings (Debian: libclang-rt-14-dev)",
    .confinement = STEVE_BY_SYMBOLS,
    .flags = STEVE_RESERVES | STEVE_THREADS,
    .least_heap = (size_t)8 << 20,
    .init = drv_init,
    .malloc = drv_malloc,
    .free = drv_free,
    .realloc = drv_realloc,
    .usable = drv_usable,
};
