/* handles.h - maps the handles of an ops file to small slot numbers.
 *
 * Handles count all blocks of a trace. A slot is reused when its block ends, so that other tables need only as many
 * entries as there are live blocks at most. Handles index a table of pages directly. A file that spreads few handles
 * over many pages is rejected before it takes much memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_PLAN_HANDLES_H
#define DRIVERS_PLAN_HANDLES_H

#include <stddef.h>
#include <stdint.h>

#define HANDLES_LIMIT ((uint64_t)1 << 32) /* handles are below this */

enum handle_result {
    HANDLE_OK,
    HANDLE_UNKNOWN,    /* no N of it yet */
    HANDLE_DEAD,       /* it has been freed */
    HANDLE_LIVE,       /* N of a live handle */
    HANDLE_TOO_LARGE,  /* not below HANDLES_LIMIT */
    HANDLE_TOO_SPARSE, /* far more handle numbers than blocks */
    HANDLE_NO_MEMORY
};

struct handles;

/* delay: a slot is reused only when so many other free slots were freed before it. */
struct handles *handles_new(uint32_t delay);
void handles_delete(struct handles *h);

/* Process an N, an F or a use of a handle; *slot is its slot. */
enum handle_result handles_make(struct handles *h, uint64_t handle, uint32_t *slot);
enum handle_result handles_drop(struct handles *h, uint64_t handle, uint32_t *slot);
enum handle_result handles_find(const struct handles *h, uint64_t handle, uint32_t *slot);

/* number of slots ever used: the most blocks live at one time */
uint32_t handles_slots(const struct handles *h);
const char *handles_text(enum handle_result r);  /* "is not live: freed before" ... */

#endif
