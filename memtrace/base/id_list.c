/* id_list.c - writes and reads lists of ascending numbers in pieces.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/id_list.h"
#include "memtrace/base/array.h"
#include "memtrace/base/buffer.h"

#include <stdlib.h>

size_t id_list_write(uint8_t *to, const uint64_t **list, size_t *n, uint64_t *next)
{
    size_t count = *n < ID_LIST_MOST ? *n : ID_LIST_MOST;
    uint8_t *p = to;
    *p++ = count < *n;
    *n -= count;
    for (; count; count--) { /* an empty list may be NULL */
        p = uvarint_write(p, **list - *next);
        *next = *(*list)++ + 1;
    }
    return (size_t)(p - to);
}

static bool keep(struct id_list *o, uint64_t number)
{
    if (!array_reserve(&o->list, &o->room, o->count + 1, sizeof *o->list))
        return false;
    o->list[o->count] = number;
    return true;
}

bool id_list_read(struct id_list *o, const uint8_t *piece, size_t size, uint64_t end)
{
    struct cursor at = {.p = piece, .end = piece + size};
    uint8_t more = cursor_byte(&at);
    if (at.bad || more > 1 || (o->begun && !o->more))
        return false;
    o->begun = true;
    o->more = more;
    while (at.p < at.end) {
        uint64_t gap = cursor_uvarint(&at);
        if (at.bad || o->next >= end || gap >= end - o->next)
            return false;
        o->next += gap;
        if (o->keeps && !keep(o, o->next))
            return false;
        o->next++;
        o->count++;
    }
    return true;
}

bool id_list_finish(struct id_list *o, bool whole, uint64_t **list, size_t *n)
{
    if (!whole) {
        free(o->list);
        *o = (struct id_list){0};
    }
    *list = o->list;
    *n = o->count;
    return whole;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void id_list_sort(uint64_t *list, size_t n)
{
    if (n)
        qsort(list, n, sizeof *list, ascending);
}
