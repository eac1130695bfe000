/* fragmentation.h - fragmentation: memory that an allocator uses beyond the live bytes, over a whole run.
 *
 * These are the four measures of Johnstone and Wilson ("The memory fragmentation problem: solved?", 1998), as percent
 * over the live bytes: (1) used over live bytes, averaged over the run; (2) the same at the moment of the most live
 * bytes; (3) the most used bytes over the live bytes at the moment of the most used bytes; (4) the most used over the
 * most live bytes. "Used" is what the allocator has mapped or, for one that works in the heap by itself, the end of
 * the part of the heap that it has used. Time is measured in bytes allocated. All operations count, not only the data
 * points. The same measures are computed for resident pages (pages that are in memory, by mincore), but at the data
 * points only, because reading them takes long.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_FRAGMENTATION_H
#define DRIVERS_BASE_FRAGMENTATION_H

#include <stdint.h>

enum { FRAGMENTATION_MEASURES = 4 };

/* Zeroed at the start. All values are in bytes. */
struct fragmentation {
    double weighted, weight; /* sums over all N of size * used / live, and of size */
    uint64_t most_live, used_at_most_live;
    uint64_t most_used, live_at_most_used;
};

/* Called after each operation. `allocated` is the number of bytes that it allocated, 0 for F. */
void fragmentation_add(struct fragmentation *f, uint64_t allocated, uint64_t live, uint64_t used);

/* Measure 1 to 4 in percent; 0 if there were no live bytes. */
double fragmentation_measure(const struct fragmentation *f, int which);

/* Robson's bound (1971): the heap that a program can force any allocator that does not move blocks to need. The
 * program has this live peak, and its blocks are powers of two times 16 bytes, up to `largest`. The bound is peak
 * * (1 + log2(n) / 2) - n + 1 in units of 16 bytes, n = largest, log2 rounded down. */
uint64_t fragmentation_robson(uint64_t peak, uint64_t largest);

#endif
