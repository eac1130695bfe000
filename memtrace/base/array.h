/* array.h - arrays that grow.
 *
 * An array is a pointer and its room, the number of elements for which there is memory; the room doubles.
 * Not for structures that others hold pointers into: the array moves. See struct table for those.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_BASE_ARRAY_H
#define MEMTRACE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The new room of an array that must hold at least `need` > room elements of `size` bytes; 0 if that exceeds the
 * address space. */
static inline size_t array_room(size_t room, size_t need, size_t size)
{
    size_t wanted = room < 32 ? 64 : room * 2;
    if (wanted < need)
        wanted = need;
    return wanted > SIZE_MAX / 2 / size ? 0 : wanted;
}

/* Make room for at least `need` elements of `size` bytes. New elements are not initialized. When out of memory,
 * returns false and leaves the array unchanged. */
static inline bool array_reserve(void *array, size_t *room, size_t need, size_t size)
{
    void *old, *bigger;
    if (need <= *room)
        return true;
    size_t wanted = array_room(*room, need, size);
    memcpy(&old, array, sizeof old);
    bigger = wanted ? realloc(old, wanted * size) : NULL;
    if (!bigger)
        return false;
    memcpy(array, &bigger, sizeof bigger);
    *room = wanted;
    return true;
}

/* Like array_reserve, but new elements are zero. */
static inline bool array_grow(void *array, size_t *room, size_t need, size_t size)
{
    const size_t had = *room;
    char *now;
    if (!array_reserve(array, room, need, size))
        return false;
    if (*room > had) {
        memcpy(&now, array, sizeof now);
        memset(now + had * size, 0, (*room - had) * size);
    }
    return true;
}

/* Like array_grow, for an array with *n elements in use, of which there are at least `need` afterwards. */
static inline bool array_grow_used(void *array, size_t *n, size_t *room, size_t need, size_t size)
{
    if (!array_grow(array, room, need, size))
        return false;
    *n = need > *n ? need : *n;
    return true;
}

/* Like array_reserve, but the array begins at a cache line, which realloc would not guarantee. */
static inline bool array_reserve_aligned(void *array, size_t *room, size_t need, size_t size)
{
    void *old, *bigger;
    if (need <= *room)
        return true;
    size_t wanted = array_room(*room, need, size);
    if (!wanted || posix_memalign(&bigger, 64, wanted * size))
        return false;
    memcpy(&old, array, sizeof old);
    if (old)
        memcpy(bigger, old, *room * size);
    free(old);
    memcpy(array, &bigger, sizeof bigger);
    *room = wanted;
    return true;
}

/* -- tables: arrays that grow in pages, so that items never move and pointers to them stay valid; reader and writer keep
 * definitions in them -- */

enum { TABLE_PAGE_BITS = 10, TABLE_PAGE = 1 << TABLE_PAGE_BITS };
#define TABLE_MOST (1u << 26) /* maximum number of items */

/* A table is empty if everything but item_size is zero. */
struct table {
    void **pages;
    uint32_t count;
    uint32_t page_count;
    uint32_t page_capacity;
    uint32_t item_size;
};

/* Add a zeroed item; NULL when out of memory or if there are TABLE_MOST items. */
void *table_add(struct table *t);
void table_free(struct table *t);

/* The item, or NULL if there is none. */
void *table_at(const struct table *t, uint32_t i);

#endif
