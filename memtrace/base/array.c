/* array.c - arrays whose items never move.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/array.h"

#include <stdbool.h>
#include <stdlib.h>

void *table_at(const struct table *t, uint32_t i)
{
    if (i >= t->count)
        return NULL;
    return (char *)t->pages[i >> TABLE_PAGE_BITS] + (size_t)(i & (TABLE_PAGE - 1)) * t->item_size;
}

static bool table_grow(struct table *t)
{
    if (t->page_count == t->page_capacity) {
        uint32_t capacity = t->page_capacity * 2 + 16;
        void **pages = realloc(t->pages, capacity * sizeof *pages);
        if (!pages)
            return false;
        t->pages = pages;
        t->page_capacity = capacity;
    }
    void *page = calloc(TABLE_PAGE, t->item_size);
    if (!page)
        return false;
    t->pages[t->page_count++] = page;
    return true;
}

void *table_add(struct table *t)
{
    if (t->count >= TABLE_MOST)
        return NULL;
    if (t->count == t->page_count << TABLE_PAGE_BITS && !table_grow(t))
        return NULL;
    t->count++;
    return table_at(t, t->count - 1);
}

void table_free(struct table *t)
{
    for (uint32_t i = 0; i < t->page_count; i++)
        free(t->pages[i]);
    free(t->pages);
}
