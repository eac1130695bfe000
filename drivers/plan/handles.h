/* handles.h - from the handles of an ops file to small slot numbers.
 *
 * Handles count the blocks of a whole trace; slots are used again when a block dies, so that all later
 * tables are as large as the most blocks ever live. A table of pages is indexed directly. A file that
 * spreads few handles over many pages is refused before it can take much memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PLAN_HANDLES_H
#define DRIVERS_PLAN_HANDLES_H

#include <stddef.h>
#include <stdint.h>

#define HANDLES_LIMIT ((uint64_t)1 << 32) /* handles are below this */

enum handle_result {
    HANDLE_OK,
    HANDLE_UNKNOWN,    /* no New of it yet */
    HANDLE_DEAD,       /* it has been freed */
    HANDLE_LIVE,       /* New of a live handle */
    HANDLE_TOO_LARGE,  /* not below HANDLES_LIMIT */
    HANDLE_TOO_SPARSE, /* far more handle numbers than blocks */
    HANDLE_NO_MEMORY
};

struct handles;

/* delay: a slot is used again only when so many others that were freed before are free. */
struct handles *handles_new(uint32_t delay);
void handles_delete(struct handles *h);

/* A New, Free or use of a handle; *slot is its slot. */
enum handle_result handles_make(struct handles *h, uint64_t handle, uint32_t *slot);
enum handle_result handles_drop(struct handles *h, uint64_t handle, uint32_t *slot);
enum handle_result handles_find(const struct handles *h, uint64_t handle, uint32_t *slot);

uint32_t handles_slots(const struct handles *h); /* slots ever used = most blocks ever live */
const char *handles_text(enum handle_result r);  /* "is not live: freed before" ... */

#endif
