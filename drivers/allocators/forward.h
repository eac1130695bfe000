/* forward.h - a driver's functions for a library that has malloc, free, realloc and the size of a block.
 *
 * Include it after defining FORWARD_MALLOC, FORWARD_FREE, FORWARD_REALLOC and FORWARD_USABLE as the library's
 * names for these. FORWARDED are then the entries of the driver's table; init stands beside it, since it is
 * there that libraries differ. The calls are compiled into the functions: nothing is looked up at run time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_ALLOCATORS_FORWARD_H
#define DRIVERS_ALLOCATORS_FORWARD_H

#include "drivers/sdk/driver.h"

/* An init: does the first block lie in the heap? Else the library began before it could be confined. */
static inline bool forward_begins_inside(void *base, size_t size)
{
    char *p = FORWARD_MALLOC(1);
    bool inside = p >= (char *)base && p < (char *)base + size;
    FORWARD_FREE(p);
    return inside;
}

/* An init for a library whose blocks may lie in a reservation of its own: does it work? */
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
