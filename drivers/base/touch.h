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

/* Write nothing, the first byte, one byte per 4096, or one byte per cache line of 64. */
static inline void touch_block(volatile unsigned char *p, uint64_t size, enum touch touch)
{
    size_t step = touch == TOUCH_ALL ? 64 : 4096;
    if (touch == TOUCH_NONE || size == 0)
        return;
    for (uint64_t i = 0; i < (touch == TOUCH_FIRST ? 1 : size); i += step)
        p[i] = 1;
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
