/* passes.h - does the runs of one measurement of an allocator.
 *
 * Time and space are measured in different runs, all in new processes, because searching for the largest block would
 * change the times of the operations after it. The order is: batch runs (the least CPU time counts, and they
 * determine the length of the run), the same on the null driver, timed runs (the median time of each data point
 * counts), one space run. Unless the user chose the number of passes, a pass of 3 s or more is not repeated, because
 * disturbances are small compared to it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_PASSES_H
#define DRIVERS_SUPERVISOR_PASSES_H

#include "drivers/supervisor/measurements.h"
#include "drivers/supervisor/session.h"

/* Do all runs and fill in *r. The caller frees r->points. Returns the exit status. After an error, which has been
 * printed, *r has the results so far. */
int passes_run(struct session *s, struct measurements *r);

/* Run a job on threads, with room in the heap for what allocators reserve for each thread. */
enum job_status passes_run_on_threads(struct session *s, enum job_kind kind);

#endif
