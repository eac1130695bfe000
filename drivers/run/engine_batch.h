/* engine_batch.h - the replay at full speed, with nothing but the operations.
 *
 * The first run in the new process is the cold one. When it completes, all live blocks are freed and the file is
 * replayed again in the same process, as long as that takes little time. The fastest of these runs is the warm one.
 * Only the operations are between the readings of the clock.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_ENGINE_BATCH_H
#define DRIVERS_RUN_ENGINE_BATCH_H

#include "drivers/run/engine.h"

/* Replay once, or in rounds with kill_percent. Then, if `warm` and if one round completed, repeat it for
 * shared->warm_cpu. The result is in shared memory. */
void batch_run(struct engine *e, bool warm);

/* Replay, and store for each data point in shared memory the number of operations since the last one and the time
 * they took together. The loop is the same; it ends at each data point. */
void batch_pieces(struct engine *e);

#endif
