/* scudo.c - driver for scudo, LLVM's hardened allocator (standalone, from compiler-rt's static archive).
 *
 * At its start it reserves about 180 GiB of addresses, and makes small parts of that usable. Large blocks are
 * separate mappings. It has its default settings. Blocks are placed at random, so runs differ.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <malloc.h>
#include <stdlib.h>

#define FORWARD_MALLOC malloc
#define FORWARD_FREE free
#define FORWARD_REALLOC realloc
#define FORWARD_USABLE malloc_usable_size
#include "drivers/allocators/forward.h"

/* The functions of the archive have the plain names. They are bound within this object. */
static bool drv_init(void *base, size_t size)
{
    return forward_begins();
}

/* A checksum, the state and the size class, padded to 16 bytes. */
static size_t drv_header(void *ref)
{
    return 16;
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
    .header = drv_header,
    FORWARDED,
};
