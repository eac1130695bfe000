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

struct pagetab {
    struct page_entry *entries;
    uint64_t mask; /* capacity - 1 */
    uint64_t count;
    unsigned shift; /* 64 - log2(capacity) */
};

bool pagetab_init(struct pagetab *t);
void pagetab_free(struct pagetab *t);

/* Set the value (not 0) of a page; false when out of memory. */
bool pagetab_set(struct pagetab *t, uint64_t page, uint64_t value);
void pagetab_delete(struct pagetab *t, uint64_t page);
/* The same of an entry that was looked up (pagetab_entry) and is not free. */
void pagetab_delete_entry(struct pagetab *t, struct page_entry *e);

static inline uint64_t pagetab_home(const struct pagetab *t, uint64_t page)
{
    return page * 0x9e3779b97f4a7c15u >> t->shift;
}

/* The entry of a page, or the free entry where it would go. */
static inline struct page_entry *pagetab_entry(const struct pagetab *t, uint64_t page)
{
    uint64_t i = pagetab_home(t, page);
    while (t->entries[i].value && t->entries[i].page != page)
        i = (i + 1) & t->mask;
    return &t->entries[i];
}

static inline uint64_t pagetab_get(const struct pagetab *t, uint64_t page)
{
    return pagetab_entry(t, page)->value;
}

/* As pagetab_set, of the entry that pagetab_entry gave for the page. */
static inline bool pagetab_put(struct pagetab *t, struct page_entry *e, uint64_t page, uint64_t value)
{
    if (!e->value) {
        if (t->count * 2 > t->mask) /* it has to grow */
            return pagetab_set(t, page, value);
        t->count++;
    }
    *e = (struct page_entry){page, value};
    return true;
}

#endif
