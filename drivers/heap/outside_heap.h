/* outside_heap.h - memory of this process outside of the heap, as the kernel sees it.
 *
 * Each block is checked to be in the heap, but tables that an allocator keeps for itself are not seen that way. So the
 * size of all writable memory is compared before and after a replay: what was added was allocated outside of the
 * heap. This does not say which code allocated it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_HEAP_OUTSIDE_H
#define DRIVERS_HEAP_OUTSIDE_H

#include <stdint.h>

/* Bytes of private writable mappings, without the region, its reservation, stacks and memory of the harness
 * (raw_syscalls.h). 0 if /proc cannot be read. */
uint64_t outside_heap_bytes(void);

#endif
