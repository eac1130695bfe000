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

/* Have a line's bits in its entry. */
static bool add(struct linepages_table *t, struct linepage *entry, const struct linepage *what)
{
    t->n += !entry->touched;
    entry->page = what->page;
    entry->line = what->line;
    entry->touched |= what->touched;
    return 4 * t->n < 3 * t->room || make_bigger(t);
}

bool linepages_touch(struct linepages *p, const struct linepages_late *late, size_t n, unsigned *fresh)
{
    for (size_t i = 0; i < n; i++) {
        const struct linepage *what = &late[i].what;
        struct linepages_table *t = &p->tables[linepages_table(late[i].hash)];
        struct linepage *entry = find(t, late[i].hash, what->page, what->line);

        uint64_t new_bits = what->touched & ~entry->touched;

        fresh[i] = 0;
        if (new_bits == 0) /* nearly always */
            continue;
        fresh[i] = bits_count(new_bits);
        if (!add(t, entry, what))
            return false;
    }
    return true;
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
