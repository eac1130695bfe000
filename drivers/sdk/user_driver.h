/* user_driver.h - the user_* functions that a driver source of the documented kind defines.
 *
 * A source that defines these and is linked with user_shim.c becomes a driver of steve-replay:
 *     cc -O2 -fPIC -shared -I... -o mine.so mine.c user_shim.c
 * The macros TIMER_* measure nanoseconds. The shim passes no op_time (NULL): steve-replay times the whole
 * call, the same way for every allocator.
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

/* Start on a heap of at most 4 GiB - 1; write a name for file names into `name` (63 letters at most). */
bool user_init(uint32_t heap_size, void *heap, char *name);
void user_destroy(void);

/* Out of memory for `size` bytes: make room if possible. True: it was. */
bool user_handle_oom(int size, uint32_t *op_time);

/* A block or, for an allocator with handles, its handle; NULL: no room. With memaddress, the block's address.
 */
void *user_malloc(int size, uint32_t handle, uint32_t *op_time, void **memaddress);
void user_free(void *ptr, uint32_t handle, uint32_t *op_time);

/* Fix a block and give its address; let it move again. */
void *user_lock(void *ptr);
void user_unlock(void *ptr);

/* Highest address in use, NULL if that is not known. */
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
