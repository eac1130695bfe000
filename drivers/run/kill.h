/* kill.h - the random end of blocks between two rounds of a replay.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_KILL_H
#define DRIVERS_RUN_KILL_H

#include "drivers/run/engine.h"

/* Free exactly percent of the live blocks (rounded down), each with the same chance, and keep the others for
 * the next round under new ids. False: nothing would be left to run out of memory, or no memory for the list;
 * the run is then over. */
bool kill_blocks(struct engine *e, uint32_t percent);

/* The next of a sequence of 64-bit numbers that depends on *state only. */
uint64_t kill_random(uint64_t *state);

#endif
