/* linepages.c - which lines touched which cache lines; see linepages.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/linepages.h"

#include "steve/kernels/bits.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ENTRIES 64

bool linepages_init(struct linepages *p)
{
    memset(p, 0, sizeof *p);
    for (size_t i = 0; i < LINEPAGES_TABLES; i++) {
        p->tables[i].entries = calloc(FIRST_ENTRIES, sizeof *p->tables[i].entries);
        p->tables[i].room = FIRST_ENTRIES;
        if (!p->tables[i].entries)
            return false;
    }
    return true;
}

void linepages_free(struct linepages *p)
{
    for (size_t i = 0; i < LINEPAGES_TABLES; i++)
        free(p->tables[i].entries);
}

/* The entry of a page and a line, or the free one where it would be. */
static struct linepage *find(const struct linepages_table *t, uint64_t hash, uint64_t page, uint32_t line)
{
    size_t i = linepages_home(t, hash);

    while (t->entries[i].touched && (t->entries[i].page != page || t->entries[i].line != line))
        i = i + 1 < t->room ? i + 1 : 0;
    return &t->entries[i];
}

static bool make_bigger(struct linepages_table *t)
{
    struct linepage *old = t->entries;
    size_t n = t->room;

    t->entries = calloc(n + n / 2, sizeof *t->entries);
    if (!t->entries) {
        t->entries = old;
        return false;
    }
    t->room = n + n / 2;
    for (size_t i = 0; i < n; i++)
        if (old[i].touched)
            *find(t, linepages_hash(old[i].page, old[i].line), old[i].page, old[i].line) = old[i];
    free(old);
    return true;
}

int linepages_touch(struct linepages *p, uint64_t hash, uint64_t page, uint64_t bits, uint32_t line)
{
    struct linepages_table *t = &p->tables[linepages_table(hash)];
    struct linepage *entry = find(t, hash, page, line);
    int n_new;

    if ((bits & ~entry->touched) == 0) /* nearly always */
        return 0;
    n_new = (int)bits_count(bits & ~entry->touched);
    t->n += !entry->touched;
    entry->page = page;
    entry->line = line;
    entry->touched |= bits;
    return 4 * t->n < 3 * t->room || make_bigger(t) ? n_new : -1;
}

size_t linepages_count(const struct linepages *p)
{
    size_t n = 0;

    for (size_t i = 0; i < LINEPAGES_TABLES; i++)
        n += p->tables[i].n;
    return n;
}

void linepages_copy(const struct linepages *p, struct linepage *to)
{
    for (size_t i = 0; i < LINEPAGES_TABLES; i++)
        for (size_t j = 0; j < p->tables[i].room; j++)
            if (p->tables[i].entries[j].touched)
                *to++ = p->tables[i].entries[j];
}
