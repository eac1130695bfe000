/* touch.h - writes to new blocks and uses them later, as the program did.
 *
 * Memory that was never written takes no physical memory and is not in the caches. Not every trace says which part of
 * a block the program writes, so the user chooses.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_BASE_TOUCH_H
#define DRIVERS_BASE_TOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum touch { TOUCH_NONE, TOUCH_FIRST, TOUCH_PAGES, TOUCH_ALL, TOUCHES };

/* Names by value, for options and results. */
extern const char *const touch_names[TOUCHES];

/* Write to bytes from..to of a block, which are new: nothing, the block's first byte, or a byte in each page or cache
 * line in which they lie. */
static inline void touch_range(void *block, uint64_t from, uint64_t to, enum touch touch)
{
    uintptr_t last = touch == TOUCH_ALL ? 63 : 4095, first = (uintptr_t)block;
    if (touch == TOUCH_NONE)
        return;
    if (touch == TOUCH_FIRST && to > 1)
        to = 1;
    for (uintptr_t at = first + from; at < first + to; at = (at | last) + 1)
        *(volatile unsigned char *)at = 1;
}

static inline void touch_block(void *block, uint64_t size, enum touch touch)
{
    touch_range(block, 0, size, touch);
}

/* Read part of a block, or write the bytes that it contains already, once per cache line. */
static inline void use_range(volatile unsigned char *p, uint64_t size, bool write)
{
    for (uint64_t i = 0; i < size; i += 64) {
        unsigned char byte = p[i];
        if (write)
            p[i] = byte;
    }
}

#endif
