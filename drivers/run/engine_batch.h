/* engine_batch.h - the replay at full speed: nothing but the operations.
 *
 * The first run in the fresh process is the cold one. When it completes, all that is live is freed and the
 * file is done again, in the same process, as long as that takes little time: the quickest of these
 * is the warm one. Only the operations lie between the readings of the clock.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_ENGINE_BATCH_H
#define DRIVERS_RUN_ENGINE_BATCH_H

#include "drivers/run/engine.h"

/* Replay once, or in rounds with kill_percent, and then, if `warm` and that completed in one round, for
 * shared->warm_cpu. The result is in shared memory. */
void batch_run(struct engine *e, bool warm);

/* Replay, and put in shared memory for each data point how many operations there were since the last and what they took
 * together. The loop is the same: it ends at each data point. */
void batch_pieces(struct engine *e);

#endif
