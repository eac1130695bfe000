/* passes.h - the runs that make up one measurement of an allocator.
 *
 * Time and space are measured in different runs, all in fresh processes: probing for the largest block
 * would spoil the times of the operations after it. In order: batch runs (least CPU time counts, and they
 * tell how long the whole run is), the same on the null driver, timed runs (the median of each data
 * point's time counts), one space run. Unless the number of passes was asked for, one that took 3 s is not
 * repeated: what disturbs a run is small beside it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SUPERVISOR_PASSES_H
#define DRIVERS_SUPERVISOR_PASSES_H

#include "drivers/commands/result.h"

/* Do all runs and fill in *r; r->points is to be freed. Returns the exit status; trouble has been told, and
 * *r holds what was found up to then. */
int passes_run(struct session *s, struct findings *r);

#endif
