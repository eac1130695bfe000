/* forward.h - functions of a driver for a library that has malloc, free, realloc and the size of a block.
 *
 * Include it after defining FORWARD_MALLOC, FORWARD_FREE, FORWARD_REALLOC and FORWARD_USABLE as the library's
 * functions. FORWARDED is then the list of entries of the driver's table, except init, which differs between
 * libraries. The functions call the library directly.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_ALLOCATORS_FORWARD_H
#define DRIVERS_ALLOCATORS_FORWARD_H

#include "drivers/sdk/driver.h"

/* For init: is the first block in the heap? If not, the library allocated memory before it was confined. */
static inline bool forward_first_block_in_heap(void *base, size_t size)
{
    char *p = FORWARD_MALLOC(1);
    bool inside = p >= (char *)base && p < (char *)base + size;
    FORWARD_FREE(p);
    return inside;
}

/* For init of a library whose blocks may be in a reservation of its own: can a block be allocated? */
static inline bool forward_begins(void)
{
    void *p = FORWARD_MALLOC(1);
    FORWARD_FREE(p);
    return p != NULL;
}

static void *forward_malloc(size_t size, uint32_t id)
{
    return FORWARD_MALLOC(size);
}

static void forward_free(void *ref, uint32_t id)
{
    FORWARD_FREE(ref);
}

static void *forward_realloc(void *ref, size_t size, uint32_t id)
{
    return FORWARD_REALLOC(ref, size);
}

static size_t forward_usable(void *ref)
{
    return FORWARD_USABLE(ref);
}

#define FORWARDED                                                                                            \
    .malloc = forward_malloc, .free = forward_free, .realloc = forward_realloc, .usable = forward_usable

#endif
