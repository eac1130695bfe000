/* glibc.c - driver for the C library's own malloc.
 *
 * The C library calls the kernel directly and not through symbols, so its brk, mmap, munmap and mremap are
 * caught by a seccomp filter and answered from the heap. The filter is in place before this driver
 * is opened and nothing in the process has called malloc before, so that the main arena begins in the
 * heap; what the dynamic linker takes while it opens the driver (a few kilobytes) counts as overhead.
 * Settings are the library's defaults. It has no compaction: malloc_trim gives pages back, not room.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdlib.h>

#define FORWARD_MALLOC malloc
#define FORWARD_FREE free
#define FORWARD_REALLOC realloc
#define FORWARD_USABLE malloc_usable_size
#include "drivers/allocators/forward.h"

/* The size of the chunk. The 8 bytes below it are the block's below, if that is in use. */
static size_t drv_header(void *ref)
{
    return sizeof(size_t);
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
    .init = forward_begins_inside,
    .header = drv_header,
    FORWARDED,
};
