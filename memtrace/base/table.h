/* table.h - arrays that grow in pages, so that items never move and pointers to them stay valid.
 *
 * Reader and writer keep definitions in them. Arrays that may move are in array.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BASE_TABLE_H
#define MEMTRACE_BASE_TABLE_H

#include <stdint.h>

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
