/* region_symbols.c - replaces the memory functions of the C library for the allocators under test.
 *
 * steve-replay is linked with -rdynamic, so a driver opened with dlopen finds these functions before those of the C
 * library. While nothing is captured they do the same as in the C library. sbrk moves the break of the region while
 * capturing, and that of the process otherwise; brk fails then. The C library's own malloc does not call these
 * functions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/heap/region.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static long with_errno(long result)
{
    if (!raw_failed(result))
        return result;
    errno = (int)-result;
    return -1;
}

EXPORTED void *mmap(void *p, size_t length, int prot, int flags, int fd, off_t offset)
{
    return (void *)with_errno(region_mmap_call(p, length, prot, flags, fd, offset));
}

EXPORTED void *mmap64(void *p, size_t length, int prot, int flags, int fd, off64_t offset)
{
    return (void *)with_errno(region_mmap_call(p, length, prot, flags, fd, offset));
}

EXPORTED int munmap(void *p, size_t length)
{
    return (int)with_errno(region_munmap_call(p, length));
}

EXPORTED void *mremap(void *p, size_t old_length, size_t length, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *target = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
    va_end(rest);
    return (void *)with_errno(region_mremap_call(p, old_length, length, flags, target));
}

EXPORTED int madvise(void *p, size_t length, int advice)
{
    return (int)with_errno(region_madvise_call(p, length, advice));
}

EXPORTED int brk(void *end)
{
    if (region_captures() && region_brk_call(end) == (long)end)
        return 0;
    errno = ENOMEM;
    return -1;
}

/* sbrk of the C library, under a name that is not replaced here. */
void *__sbrk(intptr_t increment);

EXPORTED void *sbrk(intptr_t increment)
{
    if (!region_captures())
        return __sbrk(increment);
    char *old = (char *)region_brk_call(NULL);
    if (old && region_brk_call(old + increment) == (long)(old + increment))
        return old;
    errno = ENOMEM;
    return (void *)-1;
}
