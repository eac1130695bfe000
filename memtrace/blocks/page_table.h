/* page_table.h - hash table from page number to what is in the page; part of the block map.
 *
 * Open addressing with linear probing: a look-up that hits costs one multiplication and mostly one cache
 * line. A value of 0 marks a free entry. Grows, never shrinks. Keeps no order.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_BLOCKS_PAGE_TABLE_H
#define MEMTRACE_BLOCKS_PAGE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct page_entry {
    uint64_t page;
    uint64_t value;
};

struct page_table {
    struct page_entry *entries;
    uint64_t mask; /* capacity - 1 */
    uint64_t count;
    unsigned shift; /* 64 - log2(capacity) */
};

bool page_table_init(struct page_table *t);
void page_table_free(struct page_table *t);

/* Set the value (not 0) of a page; false when out of memory. */
bool page_table_set(struct page_table *t, uint64_t page, uint64_t value);
void page_table_delete(struct page_table *t, uint64_t page);
/* The same of an entry that was looked up (page_table_entry) and is not free. */
void page_table_delete_entry(struct page_table *t, struct page_entry *e);

static inline uint64_t page_table_home(const struct page_table *t, uint64_t page)
{
    return page * 0x9e3779b97f4a7c15u >> t->shift;
}

/* The entry of a page, or the free entry where it would go. */
static inline struct page_entry *page_table_entry(const struct page_table *t, uint64_t page)
{
    uint64_t i = page_table_home(t, page);
    while (t->entries[i].value && t->entries[i].page != page)
        i = (i + 1) & t->mask;
    return &t->entries[i];
}

static inline uint64_t page_table_get(const struct page_table *t, uint64_t page)
{
    return page_table_entry(t, page)->value;
}

/* As page_table_set, of the entry that page_table_entry gave for the page. */
static inline bool page_table_put(struct page_table *t, struct page_entry *e, uint64_t page, uint64_t value)
{
    if (!e->value) {
        if (t->count * 2 > t->mask) /* it has to grow */
            return page_table_set(t, page, value);
        t->count++;
    }
    *e = (struct page_entry){page, value};
    return true;
}

#endif
