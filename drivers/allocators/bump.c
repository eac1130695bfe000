/* bump.c - reference allocator: a pointer that only moves up.
 *
 * This is the fastest allocator and the one that wastes the most memory: freed blocks are not reused until nothing is
 * live. It is the upper bound on memory and the lower bound on time, with which the others are compared. Each block
 * is preceded by its size, for realloc and usable.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <string.h>

enum { ALIGN = 16, HEADER = 16 };

static char *s_base, *s_top, *s_end;
static size_t s_live;

static bool bump_init(void *base, size_t size)
{
    s_base = s_top = base;
    s_end = s_base + size;
    return true;
}

static size_t *size_of(void *ref)
{
    return (size_t *)((char *)ref - HEADER);
}

static void *bump_malloc(size_t size, uint32_t id)
{
    size_t room = (size_t)(s_end - s_top), need;
    if (size > room)
        return NULL;
    need = HEADER + ((size + ALIGN - 1) & ~(size_t)(ALIGN - 1));
    if (need > room)
        return NULL;
    char *block = s_top + HEADER;
    s_top += need;
    *size_of(block) = need - HEADER;
    s_live++;
    return block;
}

static void bump_free(void *ref, uint32_t id)
{
    if (--s_live == 0)
        s_top = s_base;
}

static void *bump_realloc(void *ref, size_t size, uint32_t id)
{
    if (size <= *size_of(ref))
        return ref;
    void *moved = bump_malloc(size, id);
    if (!moved)
        return NULL;
    memcpy(moved, ref, *size_of(ref));
    bump_free(ref, id);
    return moved;
}

static size_t bump_usable(void *ref)
{
    return *size_of(ref);
}

static void *bump_lock(void *ref)
{
    return ref;
}

static void bump_unlock(void *ref)
{
}

static void *bump_highest(void)
{
    return s_top;
}

static bool bump_walk(struct steve_walk *out)
{
    out->free = (size_t)(s_end - s_top);
    out->chunks = out->free ? 1 : 0;
    out->largest = out->free > HEADER ? (out->free - HEADER) & ~(size_t)(ALIGN - 1) : 0;
    return true;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "bump",
    .description = "reference: a pointer that only moves up, reset when nothing is live",
    .confinement = STEVE_IN_HEAP,
    .init = bump_init,
    .malloc = bump_malloc,
    .free = bump_free,
    .realloc = bump_realloc,
    .usable = bump_usable,
    .lock = bump_lock,
    .unlock = bump_unlock,
    .highest = bump_highest,
    .walk = bump_walk,
};
