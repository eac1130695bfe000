/* page_table.h - a hash table from page numbers to the contents of pages; part of the block map.
 *
 * It uses open addressing with linear probing: a successful look-up takes one multiplication and, in most cases, one
 * cache line. The value 0 marks a free entry. The table grows and never shrinks.
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

/* Set the value of a page, which is not 0; false when out of memory. */
bool page_table_set(struct page_table *t, uint64_t page, uint64_t value);
void page_table_delete(struct page_table *t, uint64_t page);
/* Delete an entry that page_table_entry returned and that is not free. */
void page_table_delete_entry(struct page_table *t, struct page_entry *e);

static inline uint64_t page_table_home(const struct page_table *t, uint64_t page)
{
    return page * 0x9e3779b97f4a7c15u >> t->shift;
}

/* The entry of a page, or the free entry where it would be added. */
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

/* Like page_table_set, with the entry that page_table_entry returned for the page. */
static inline bool page_table_put(struct page_table *t, struct page_entry *e, uint64_t page, uint64_t value)
{
    if (!e->value) {
        if (t->count * 2 > t->mask) /* the table has to grow */
            return page_table_set(t, page, value);
        t->count++;
    }
    *e = (struct page_entry){page, value};
    return true;
}

#endif
