/* glibc.c - driver for the C library's own malloc.
 *
 * The C library calls the kernel directly and not through symbols, so its brk, mmap, munmap and mremap are
 * caught by a seccomp filter and answered from the heap. The filter is in place before this driver
 * is opened and nothing in the process has called malloc before, so that the main arena begins in the
 * heap; what the dynamic linker takes while it opens the driver (a few kilobytes) counts as overhead.
 * Settings are the library's defaults. It has no compaction: malloc_trim gives pages back, not room.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/driver.h"

#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdlib.h>

static bool libc_init(void *base, size_t size)
{
    char *p = malloc(1);
    bool inside = p >= (char *)base && p < (char *)base + size;
    free(p);
    return inside;
}

static void *libc_malloc(size_t size, uint32_t id)
{
    return malloc(size);
}

static void libc_free(void *ref, uint32_t id)
{
    free(ref);
}

static void *libc_realloc(void *ref, size_t size, uint32_t id)
{
    return realloc(ref, size);
}

static size_t libc_usable(void *ref)
{
    return malloc_usable_size(ref);
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "glibc",
    .description = "the C library's malloc (ptmalloc) with its default settings",
    .confinement = STEVE_BY_SYSCALLS,
    .flags = STEVE_THREADS,
    .least_heap = (size_t)512 << 10,
    .package = gnu_get_libc_version,
    .init = libc_init,
    .malloc = libc_malloc,
    .free = libc_free,
    .realloc = libc_realloc,
    .usable = libc_usable,
};
