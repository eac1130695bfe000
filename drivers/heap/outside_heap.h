/* outside_heap.h - memory that this process has outside of the heap, as the kernel sees it.
 *
 * Blocks are checked one by one to lie in the heap; tables that an allocator keeps for itself are not seen
 * that way. So what the process could write to, in all, is compared before and after a replay: what came in
 * between, came past the heap. It does not tell who took it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_HEAP_OUTSIDE_H
#define DRIVERS_HEAP_OUTSIDE_H

#include <stdint.h>

/* Bytes of private writable mappings but for the region, its reservation, stacks and what the harness has
 * (raw_syscalls.h). 0 when /proc cannot be read. */
uint64_t outside_heap_bytes(void);

#endif
