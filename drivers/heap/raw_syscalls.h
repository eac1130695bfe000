/* raw_syscalls.h - the kernel's memory calls, made directly.
 *
 * steve-replay answers mmap, sbrk and the like itself while an allocator runs (region_symbols.c,
 * region_syscalls.c). Its own calls must reach the kernel: they all pass through one system call
 * instruction, whose address the seccomp filter lets through. Nothing here uses errno or malloc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_HEAP_RAW_SYSCALLS_H
#define DRIVERS_HEAP_RAW_SYSCALLS_H

#include <stdbool.h>
#include <stddef.h>

/* One system call; a result in -4095..-1 is a negative errno. */
long raw_syscall(long number, long a, long b, long c, long d, long e, long f);
extern const char raw_return_address[]; /* where the call's instruction ends */

static inline bool raw_failed(long result)
{
    return result < 0 && result >= -4095;
}

/* Zeroed private memory of the harness's own, NULL when there is none; committed only as it is touched. */
void *raw_map(size_t size);
/* The same at a wanted address with nothing there yet; NULL when that is taken. */
void *raw_map_at(void *where, size_t size);
void raw_unmap(void *p, size_t size);
/* Grow what raw_map gave; NULL: no memory, the old stays. */
void *raw_remap(void *p, size_t old_size, size_t size);
/* Bytes of pages that these have given and not taken back. */
size_t raw_mapped(void);
/* Replace pages by fresh zero pages, readable and writable. */
void raw_renew(void *p, size_t size);

#endif
