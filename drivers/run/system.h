/* system.h - the replay on the malloc that the process has, in memory of the system.
 *
 * The other jobs give an allocator a heap of fixed size and answer its requests for memory. Options that decide when
 * an allocator requests memory from the system and returns it have no effect there, or another one. In this job the
 * process calls malloc, free and realloc as any program does: of the C library, or of the library in LD_PRELOAD. It
 * writes to the blocks, and the resident memory of the process and the CPU time include what the system does.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_RUN_SYSTEM_H
#define DRIVERS_RUN_SYSTEM_H

#include "drivers/run/engine.h"

/* malloc of the process as a driver */
extern const struct steve_driver system_driver;

/* Replay once, in one thread or, if the plan has threads, in all of them. The result is in shared->system. */
void system_run(struct engine *e);

#endif
