/* glibc.c - driver for the C library's own malloc.
 *
 * The C library calls the kernel directly and not through symbols, so a seccomp filter captures its brk, mmap, munmap
 * and mremap, which are served from the heap. The filter is installed before this driver is opened, and nothing in
 * the process has called malloc before, so the main arena begins in the heap. Memory that the dynamic linker
 * allocates while it opens the driver (a few kilobytes) counts as overhead. The settings are the defaults of the
 * library. There is no compaction: malloc_trim returns pages but makes no room.
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

/* The size of the chunk. The last 8 bytes of the chunk below belong to the block below if that is in use. */
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
    .init = forward_first_block_in_heap,
    .header = drv_header,
    FORWARDED,
};
