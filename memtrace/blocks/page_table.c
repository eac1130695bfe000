/* page_table.c - a hash table of pages.
 *
 * Deletion moves later entries of the probe sequence back and leaves no marks, so that many additions and deletions
 * do not slow the table down.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/blocks/page_table.h"

#include <stdlib.h>

static bool allocate(struct page_table *t, unsigned log2_capacity)
{
    t->entries = calloc((size_t)1 << log2_capacity, sizeof *t->entries);
    t->mask = ((uint64_t)1 << log2_capacity) - 1;
    t->shift = 64 - log2_capacity;
    t->count = 0;
    return t->entries != NULL;
}

bool page_table_init(struct page_table *t)
{
    return allocate(t, 6);
}

void page_table_free(struct page_table *t)
{
    free(t->entries);
    t->entries = NULL;
}

static bool grow(struct page_table *t)
{
    struct page_table bigger;
    if (!allocate(&bigger, 64 - t->shift + 1)) {
        free(bigger.entries);
        return false;
    }
    for (uint64_t i = 0; i <= t->mask; i++)
        if (t->entries[i].value)
            *page_table_entry(&bigger, t->entries[i].page) = t->entries[i];
    bigger.count = t->count;
    free(t->entries);
    *t = bigger;
    return true;
}

bool page_table_set(struct page_table *t, uint64_t page, uint64_t value)
{
    struct page_entry *e = page_table_entry(t, page);
    if (!e->value) {
        if (t->count * 2 > t->mask) {
            if (!grow(t))
                return false;
            e = page_table_entry(t, page);
        }
        t->count++;
    }
    *e = (struct page_entry){page, value};
    return true;
}

void page_table_delete(struct page_table *t, uint64_t page)
{
    struct page_entry *e = page_table_entry(t, page);
    if (e->value)
        page_table_delete_entry(t, e);
}

void page_table_delete_entry(struct page_table *t, struct page_entry *e)
{
    uint64_t hole = (uint64_t)(e - t->entries);
    for (uint64_t i = (hole + 1) & t->mask; t->entries[i].value; i = (i + 1) & t->mask) {
        uint64_t home = page_table_home(t, t->entries[i].page);
        if (((i - home) & t->mask) >= ((i - hole) & t->mask)) {
            t->entries[hole] = t->entries[i];
            hole = i;
        }
    }
    t->entries[hole].value = 0;
    t->count--;
}
