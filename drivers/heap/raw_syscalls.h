/* raw_syscalls.h - memory system calls without the C library.
 *
 * While an allocator runs, steve-replay handles mmap, sbrk and similar calls itself (region_symbols.c,
 * region_calls.c). Its own calls must reach the kernel. They all use one system call instruction, whose address
 * the seccomp filter allows. Nothing here uses errno or malloc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_HEAP_RAW_SYSCALLS_H
#define DRIVERS_HEAP_RAW_SYSCALLS_H

#include <stdbool.h>
#include <stddef.h>

/* Make a system call. A result in -4095..-1 is a negative errno. */
long raw_syscall(long number, long a, long b, long c, long d, long e, long f);
extern const char raw_return_address[]; /* address after the system call instruction */

static inline bool raw_failed(long result)
{
    return result < 0 && result >= -4095;
}

/* Zeroed private memory for the harness; NULL if there is none. Pages take memory only when they are touched. */
void *raw_map(size_t size);
/* The same, but children of this process do not have it. Forks are faster, and no page is copied after one. */
void *raw_map_unshared(size_t size);
/* As raw_map, at a given address if nothing is mapped there; otherwise NULL. */
void *raw_map_at(void *where, size_t size);
void raw_unmap(void *p, size_t size);
/* Enlarge memory from raw_map. NULL if out of memory; the old memory is then unchanged. */
void *raw_remap(void *p, size_t old_size, size_t size);
/* Bytes of pages that these functions have mapped and not unmapped. */
size_t raw_mapped(void);
/* Replace pages by new zero pages, readable and writable. */
void raw_renew(void *p, size_t size);

#endif
