/* user_shim.c - makes a driver of a source that defines the user_* functions.
 *
 * Link it with such a source into one shared object. Sizes are int and heaps uint32_t there, so larger ones are
 * rejected. Two properties of a driver are not part of the user_* functions and are given when this file is compiled:
 * -DUSER_NAME='"name"', and -DUSER_MOVES for an allocator whose user_malloc returns handles and not addresses.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "driver.h"
#include "user_driver.h"

#include <limits.h>

#ifdef USER_MOVES
enum { FLAGS = STEVE_MOVES };
#else
enum { FLAGS = 0 };
#endif
#ifndef USER_NAME
#define USER_NAME "user"
#endif

static char s_name[256];

static bool shim_init(void *base, size_t size)
{
    return size <= UINT32_MAX && user_init((uint32_t)size, base, s_name);
}

static void *shim_malloc(size_t size, uint32_t id)
{
    return size <= INT_MAX ? user_malloc((int)size, id, NULL, NULL) : NULL;
}

static void shim_free(void *ref, uint32_t id)
{
    user_free(ref, id, NULL);
}

static bool shim_compact(size_t wanted)
{
    return wanted <= INT_MAX && user_handle_oom((int)wanted, NULL);
}

static void *shim_where(void *ref)
{
    void *address = user_lock(ref);
    user_unlock(ref);
    return address;
}

static void *shim_highest(void)
{
    return user_highest_address(true);
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = USER_NAME,
    .description = "written against the user_* functions",
    .confinement = STEVE_IN_HEAP,
    .flags = FLAGS,
    .init = shim_init,
    .destroy = user_destroy,
    .malloc = shim_malloc,
    .free = shim_free,
    .lock = user_lock,
    .unlock = user_unlock,
    .where = shim_where,
    .compact = shim_compact,
    .highest = shim_highest,
};
