/* arenas.h - recognizes the heaps of glibc's arenas of threads in the memory of a process.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_COLLECTOR_ARENAS_H
#define LJTRACE_COLLECTOR_ARENAS_H

#include <stdint.h>

#define ARENA_ALIGNMENT (64ULL << 20) /* and the most bytes of a heap */

/* The bytes of the heap that begins at `at`, a multiple of ARENA_ALIGNMENT, as far as it can be written: the rest
 * of ARENA_ALIGNMENT is only reserved. 0 = there is none, or its page is not in memory or cannot be read. memory,
 * pagemap: descriptors of these files of /proc/PID; page: the bytes of a page. No page of the process is touched
 * that is not in memory. */
uint64_t arena_heap_bytes(int memory, int pagemap, uint64_t at, uint64_t page);

#endif
