/* measure.h - what the heap looks like at each data point.
 *
 * A watcher of the replay that keeps the sums (bytes asked for, usable, locked, blocks) and at the data
 * points fills in a record: free, used, overhead, committed, resident, highest address, largest block.
 * free + used + overhead = heap. Where the allocator can walk its heap, free is what it says; else
 * overhead is usable less asked-for bytes where it tells usable sizes, and 0 where it does not.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_MEASURE_MEASURE_H
#define DRIVERS_MEASURE_MEASURE_H

#include "drivers/run/engine.h"

/* Replay and fill shared->points; the result is in shared memory. */
void measure_run(struct engine *e);

#endif
