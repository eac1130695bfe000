/* region.h - the heap given to the allocator under test, and a small operating system over it.
 *
 * One stretch of address space is reserved. An allocator either works in it directly, or asks for memory as
 * it would ask the kernel; then these functions answer, from the region and nowhere else, so that the heap is
 * bounded and what is committed is known to the byte. There is one region in a process.
 *
 * Results are as the kernel gives them: an address or 0, or a negative errno. Lengths are rounded up to
 * pages. Mappings are placed at the lowest address with room; once the break has been moved they are
 * placed from the top down, as the kernel does, and the break grows from the bottom.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_HEAP_REGION_H
#define DRIVERS_HEAP_REGION_H

#include <stdbool.h>
#include <stddef.h>

enum { REGION_PAGE = 4096 };

/* Reserve `size` bytes, always at the same address where that is free. False: not to be had. */
bool region_reserve(size_t size);
char *region_base(void);
size_t region_size(void);                        /* as asked for */
size_t region_reserved(void);                    /* bytes of addresses really taken for it */
bool region_holds(const void *p, size_t length); /* all of p .. p + length is in it */

/* Bytes from the heap's start, of an address that it holds. */
size_t region_offset(const void *p);
/* From now on a mapping of more than the heap's size that cannot be accessed is a mere reservation of
 * addresses (reservation.h): what is made usable of it counts, and may not exceed the heap together with all
 * else. */
void region_allow_stretch(void);

/* The operating system's part. */
long region_reserve_more(size_t length);
long region_use(void *p, size_t length); /* in the reservation */
long region_map(void *where, size_t length, bool fixed);
long region_unmap(void *p, size_t length);
long region_remap(void *p, size_t old_length, size_t length, bool may_move);
long region_break(void *end); /* the break after the call: moved to `end` or, if that cannot be, as it was */

/* What it has given out. */
size_t region_committed(void); /* bytes mapped now */
char *region_top(void); /* end of the highest mapped page, region_base() if none; with a reservation: as if
                                  all that is mapped lay at the start */
size_t region_resident(void);  /* bytes of the whole region that are in memory now */

/* Calls that the allocator makes are answered here only while capturing is on. */
void region_capture(bool on);
bool region_captures(void);

/* Answer a memory system call as the kernel would, from the region or, when it is none of the region's
 * business (files, other addresses, capturing off), by the kernel. Used by both ways of capture. */
long region_mmap_call(void *p, size_t length, int prot, int flags, int fd, long offset);
long region_munmap_call(void *p, size_t length);
long region_mremap_call(void *p, size_t old_length, size_t length, int flags, void *target);
long region_madvise_call(void *p, size_t length, int advice);
long region_brk_call(void *end);

/* Have the kernel hand this process's brk, mmap, munmap, mremap and madvise calls to the functions above,
 * from now on and for good. False: it refuses. */
bool region_trap_syscalls(void);

#endif
