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

/* The entry of a page and a line, or the free one where it would be, from its home on. */
static inline struct linepage *find(const struct linepages_table *t, size_t home, uint64_t page,
                                    uint32_t line)
{
    struct linepage *entry = &t->entries[home], *end = &t->entries[t->room];

    while (entry->touched && (entry->page != page || entry->line != line))
        entry = entry + 1 < end ? entry + 1 : t->entries;
    return entry;
}

static size_t home_of(const struct linepages_table *t, const struct linepage *what)
{
    return linepages_home(t, linepages_hash(what->page, what->line));
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
            *find(t, home_of(t, &old[i]), old[i].page, old[i].line) = old[i];
    free(old);
    return true;
}

/* Have what one of n touches in its entry, where it was not. */
static bool add(struct linepages_late *late, size_t n, struct linepage *entry)
{
    struct linepages_table *t = late->table;

    t->n += !entry->touched;
    entry->page = late->what.page;
    entry->line = late->what.line;
    entry->touched |= late->what.touched;
    if (4 * t->n < 3 * t->room)
        return true;
    if (!make_bigger(t))
        return false;
    for (size_t i = 0; i < n; i++)
        if (late[i].table == t)
            late[i].home = home_of(t, &late[i].what);
    return true;
}

size_t linepages_touch(struct linepages_late *late, size_t n, struct linepages_fresh *fresh)
{
    size_t n_fresh = 0;

    for (; n > 0; late++, n--) {
        struct linepage *entry = find(late->table, late->home, late->what.page, late->what.line);
        uint64_t bits = late->what.touched & ~entry->touched;

        if (bits == 0) /* nearly always */
            continue;
        fresh[n_fresh++] = (struct linepages_fresh){late->what.line, bits_count(bits)};
        if (!add(late, n, entry))
            return SIZE_MAX;
    }
    return n_fresh;
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
