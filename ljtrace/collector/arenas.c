/* arenas.c - recognizes the heaps of glibc's arenas of threads in the memory of a process; see arenas.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A thread stack and a heap look the same to the kernel: private memory without a name. A heap begins with a
 * header that names its arena, the heap before it, and its size. The arena is directly after the header of its
 * first heap. Headers of glibc have two more words since 2.35.
 */
#define _GNU_SOURCE
#include "ljtrace/collector/arenas.h"

#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

enum { HEAD = 32, HEAD_2_35 = 48 };

struct heap_head {
    uint64_t arena, previous, size, writable;
};

static bool is_in_memory(int pagemap, uint64_t at, uint64_t page)
{
    const uint64_t present = 1ULL << 63;
    uint64_t entry = 0;
    const off_t place = (off_t)(at / page * sizeof entry);
    return pread(pagemap, &entry, sizeof entry, place) == (ssize_t)sizeof entry && (entry & present);
}

uint64_t arena_heap_bytes(int memory, int pagemap, uint64_t at, uint64_t page)
{
    struct heap_head h;
    if (!is_in_memory(pagemap, at, page) || pread(memory, &h, sizeof h, (off_t)at) != (ssize_t)sizeof h)
        return 0;
    const uint64_t first = h.arena & ~(ARENA_ALIGNMENT - 1), head = h.arena - first;
    const bool is_first = first == at;
    const bool good = (head == HEAD || head == HEAD_2_35) && first && h.previous % ARENA_ALIGNMENT == 0 &&
                      is_first == !h.previous && h.size && h.size % page == 0 && h.writable % page == 0 &&
                      h.size <= h.writable && h.writable <= ARENA_ALIGNMENT;
    return good ? h.writable : 0;
}
