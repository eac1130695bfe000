/* mimalloc.c - driver for Debian's mimalloc (libmimalloc.so, found at run time).
 *
 * Its calls of mmap and similar functions are served from the heap. It uses address space in aligned segments of 32
 * MiB, and more than one for huge blocks, so it cannot start in a small heap. It has its default settings, except
 * that it prints nothing when memory is short.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <mimalloc.h>
#include <stdio.h>

#define FORWARD_MALLOC mi_malloc
#define FORWARD_FREE mi_free
#define FORWARD_REALLOC mi_realloc
#define FORWARD_USABLE mi_usable_size
#include "drivers/allocators/forward.h"

static char s_version[16];

static void silent(const char *text, void *arg)
{
}

static bool drv_init(void *base, size_t size)
{
    mi_register_output(silent, NULL);
    return forward_begins();
}

static const char *drv_package(void)
{
    int v = mi_version();
    snprintf(s_version, sizeof s_version, "%d.%d.%d", v / 100, v / 10 % 10, v % 10);
    return s_version;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "mimalloc",
    .description = "mimalloc with its default settings (Debian: libmimalloc2.0)",
    .confinement = STEVE_BY_SYMBOLS,
    .flags = STEVE_THREADS | STEVE_ALIGNS_TO_SIZE,
    .least_heap = (size_t)64 << 20,
    .package = drv_package,
    .init = drv_init,
    FORWARDED,
};
