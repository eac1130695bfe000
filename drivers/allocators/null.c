/* null.c - the driver that does nothing, to measure the replay itself.
 *
 * Every malloc returns the start of the heap and free does nothing. The time of a replay is therefore that of the
 * replay itself; it is subtracted from the batch times of real allocators. Its blocks overlap, so nothing may be
 * written to them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

static char *s_base;
static size_t s_size;

static bool null_init(void *base, size_t size)
{
    s_base = base;
    s_size = size;
    return true;
}

static void *null_malloc(size_t size, uint32_t id)
{
    return size <= s_size ? s_base : NULL;
}

static void null_free(void *ref, uint32_t id)
{
}

static void *null_realloc(void *ref, size_t size, uint32_t id)
{
    return size <= s_size ? s_base : NULL;
}

static void *null_lock(void *ref)
{
    return ref;
}

static void null_unlock(void *ref)
{
}

static void *null_highest(void)
{
    return s_base;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "null",
    .description = "does nothing: measures the cost of the replay itself",
    .confinement = STEVE_IN_HEAP,
    .flags = STEVE_NO_MEMORY | STEVE_THREADS,
    .init = null_init,
    .malloc = null_malloc,
    .free = null_free,
    .realloc = null_realloc,
    .lock = null_lock,
    .unlock = null_unlock,
    .highest = null_highest,
};
