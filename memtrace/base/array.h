/* array.h - arrays that grow.
 *
 * The kernels keep arrays with one element for each live block; this is the one place that makes them longer.
 * Not for structures that others hold pointers into: the array moves.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef MEMTRACE_BASE_ARRAY_H
#define MEMTRACE_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Make *array (room for *room elements of `size` bytes) hold at least `need`; new elements are zero.
 * False when there is no memory: the array is then as before. */
static inline bool array_grow(void *array, size_t *room, size_t need, size_t size)
{
    void *old, *bigger;
    size_t wanted = *room < 32 ? 64 : *room * 2;

    if (need <= *room)
        return true;
    if (wanted < need)
        wanted = need;
    if (wanted > SIZE_MAX / 2 / size)
        return false;
    memcpy(&old, array, sizeof old);
    bigger = realloc(old, wanted * size);
    if (!bigger)
        return false;
    memset((char *)bigger + *room * size, 0, (wanted - *room) * size);
    memcpy(array, &bigger, sizeof bigger);
    *room = wanted;
    return true;
}

/* The same of an array of which *n elements are in use: use at least `need`. */
static inline bool array_grow_used(void *array, size_t *n, size_t *room, size_t need, size_t size)
{
    if (!array_grow(array, room, need, size))
        return false;
    *n = need > *n ? need : *n;
    return true;
}

#endif
