/* user_driver.h - the user_* functions, which a driver written for the first Steve defines.
 *
 * A source that defines these and is linked with user_shim.c becomes a driver of steve-replay:
 *     cc -O2 -fPIC -shared -I... -o mine.so mine.c user_shim.c
 * docs/writing-a-driver.md has the whole command. In the first Steve, a driver stored the time of each operation in
 * *op_time, measured by the macros TIMER_*. The shim passes NULL, because steve-replay times the whole call, in the
 * same way for every allocator.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_SDK_USER_DRIVER_H
#define DRIVERS_SDK_USER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start on a heap of at most 4 GiB - 1 byte. Write into `name` the allocator's name for use in file names (at most 63
 * letters). False if the allocator cannot start. */
bool user_init(uint32_t heap_size, void *heap, char *name);
void user_destroy(void);

/* user_malloc found no room for `size` bytes: make room if possible, for instance by moving blocks. True if there is
 * room now. */
bool user_handle_oom(int size, uint32_t *op_time);

/* Allocate a block. Returns its address or, in an allocator that moves blocks, its handle; NULL if there is no room. If
 * memaddress is not NULL (the shim passes NULL), *memaddress is set to the address of the block. */
void *user_malloc(int size, uint32_t handle, uint32_t *op_time, void **memaddress);
void user_free(void *ptr, uint32_t handle, uint32_t *op_time);

/* Prevent a block from moving and return its address; allow it to move again. */
void *user_lock(void *ptr);
void user_unlock(void *ptr);

/* Highest address in use, NULL if not known. The shim passes true as full_calculation. */
void *user_highest_address(bool full_calculation);

#ifdef __cplusplus
}
#endif

/* Time a piece of code: TIMER_DECL among the declarations, then START, END and ELAPSED (nanoseconds). */
#define TIMER_DECL struct timespec timer_from_, timer_to_
#define TIMER_START clock_gettime(CLOCK_MONOTONIC, &timer_from_)
#define TIMER_END clock_gettime(CLOCK_MONOTONIC, &timer_to_)
#define TIMER_ELAPSED                                                                                        \
    ((uint32_t)((timer_to_.tv_sec - timer_from_.tv_sec) * 1000000000L + timer_to_.tv_nsec -                  \
                timer_from_.tv_nsec))

#endif
