/* region.h - the heap of the allocator under test, and replacements for the memory calls of the kernel.
 *
 * One range of address space is reserved. An allocator either works in it directly, or requests memory as it would
 * from the kernel. These functions then serve the request from the region only, so that the heap is bounded and its
 * committed bytes are known exactly. There is one region in a process.
 *
 * Results are those of the kernel: an address or 0, or a negative errno. Lengths are rounded up to pages. Mappings
 * are placed at the lowest address with room. Once the break has been moved, they are placed from the top down, as
 * the kernel does, and the break grows from the bottom.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_HEAP_REGION_H
#define DRIVERS_HEAP_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REGION_PAGE = 4096 };

/* Reserve `size` bytes, at the same address in each process if it is free. False if that is impossible. */
bool region_reserve(size_t size);
char *region_base(void);
size_t region_size(void);                        /* as requested */
size_t region_reserved(void);                    /* bytes of address space reserved for it */
bool region_holds(const void *p, size_t length); /* all of p .. p + length is in it */

/* Offset of an address from the start of the heap. */
size_t region_offset(const void *p);
/* Treat an inaccessible mapping larger than the heap as a reservation of addresses (reservation.h). Only the parts
 * that are made usable count; together with everything else they may not exceed the heap. */
void region_allow_reservation(void);

/* -- memory calls -- */
long region_reserve_more(size_t length);
long region_use(void *p, size_t length); /* in the reservation only */
long region_map(void *where, size_t length, bool fixed);
long region_unmap(void *p, size_t length);
long region_remap(void *p, size_t old_length, size_t length, bool may_move);
long region_break(void *end); /* moves the break to `end` if possible, and returns it */

/* -- memory in use -- */
size_t region_committed(void); /* bytes that are mapped */
char *region_top(void); /* end of the highest mapped page, region_base() if none; with a reservation: as if
                                  all that is mapped lay at the start */
size_t region_resident(void); /* bytes of the region that are in memory */

struct steve_driver;
/* End of the part of the heap that this allocator uses now, in bytes from the start of the region. */
uint64_t region_extent(const struct steve_driver *d);

/* Calls of the allocator are handled here only while capturing is on. */
void region_capture(bool on);
bool region_captures(void);
/* Number of memory calls of the allocator that were handled here. */
uint64_t region_calls(void);

/* Handle a memory system call as the kernel would: from the region or, if it does not concern the region (files, other
 * addresses, capturing off), by calling the kernel. Used by both ways of capturing. */
long region_mmap_call(void *p, size_t length, int prot, int flags, int fd, long offset);
long region_munmap_call(void *p, size_t length);
long region_mremap_call(void *p, size_t old_length, size_t length, int flags, void *target);
long region_madvise_call(void *p, size_t length, int advice);
long region_brk_call(void *end);

/* Requests for memory: a new mapping, a larger one, or a higher break. The one with number `nth` is refused as by a
 * kernel without memory; 0 = none. */
struct region_refusal {
    uint64_t nth;
    uint64_t requests; /* number of requests so far */
    bool refused;
};
/* Count requests in *r from now on, and refuse as it says. */
void region_refuse(struct region_refusal *r);

/* Redirect this process's brk, mmap, munmap, mremap and madvise calls to the functions above, permanently. False: the
 * kernel refuses. */
bool region_trap_syscalls(void);

#endif
