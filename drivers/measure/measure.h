/* measure.h - measures the heap at each data point.
 *
 * This is a watcher of the replay. It keeps sums (bytes requested, usable, locked, blocks) and fills in a record at
 * each data point: free, used, overhead, committed, resident, highest address, largest block; free + used + overhead
 * = heap. If the allocator can walk its heap, `free` is what it reports. Otherwise overhead is usable less requested
 * bytes if it reports usable sizes, and 0 if not.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_MEASURE_MEASURE_H
#define DRIVERS_MEASURE_MEASURE_H

#include "drivers/run/engine.h"

/* Replay and fill shared->points. The result is in shared memory. */
void measure_run(struct engine *e);

#endif
