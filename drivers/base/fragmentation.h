/* fragmentation.h - how much more than the live bytes an allocator uses, over a whole run.
 *
 * The four measures of Johnstone and Wilson ("The memory fragmentation problem: solved?", 1998), as percent
 * over the live bytes: (1) used over live, averaged over the run; (2) the same at the moment of most live
 * bytes; (3) most used over the live bytes at that moment; (4) most used over most live. "Used" is what the
 * allocator has mapped, or for one that works in the heap by itself how far up it has come. Time goes by
 * bytes allocated. All operations count, not only the data points. The same measures of resident pages (pages that
 * are in memory, by mincore) are taken at the data points only, as looking takes long.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_FRAGMENTATION_H
#define DRIVERS_BASE_FRAGMENTATION_H

#include <stdint.h>

enum { FRAGMENTATION_MEASURES = 4 };

/* Zeroed at first. Bytes. */
struct fragmentation {
    double weighted, weight; /* sums over all N of size * used / live, and of size */
    uint64_t most_live, used_at_most_live;
    uint64_t most_used, live_at_most_used;
};

/* After an operation: `allocated` bytes by it (0 for F). */
void fragmentation_add(struct fragmentation *f, uint64_t allocated, uint64_t live, uint64_t used);

/* Measure 1 to 4 in percent; 0 when nothing was ever live. */
double fragmentation_measure(const struct fragmentation *f, int which);

/* Robson's bound (1971): the bytes that a program with this live peak, whose blocks are powers of two times
 * 16 bytes up to `largest`, can force any allocator that does not move blocks to need:
 * peak * (1 + log2(n) / 2) - n + 1 in units of 16, n = largest, log2 rounded down. */
uint64_t fragmentation_robson(uint64_t peak, uint64_t largest);

#endif
