/* line_pages.c - which lines touched which cache lines; see line_pages.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "steve/kernels/lines/line_pages.h"

#include "steve/kernels/base/bits.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ENTRIES 64

static struct linepage *new_entries(size_t room)
{
    return calloc(room + 1, sizeof(struct linepage));
}

bool linepages_init(struct linepages *p)
{
    memset(p, 0, sizeof *p);
    for (size_t i = 0; i < LINEPAGES_TABLES; i++) {
        p->tables[i].entries = new_entries(FIRST_ENTRIES);
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

/* The entry of a page and a line, searched from an entry on, or a free entry, possibly the one after the last. */
static inline struct linepage *seek(struct linepage *entry, uint64_t page, uint32_t line)
{
    while ((entry->page != page || entry->line != line) && entry->touched)
        entry++;
    return entry;
}

/* The entry of a page and a line, or the free one where it would be. */
static struct linepage *find(const struct linepages_table *t, const struct linepage *what)
{
    struct linepage *home = linepages_home(t, linepages_hash(what->page, what->line));
    struct linepage *entry = seek(home, what->page, what->line);

    return entry == &t->entries[t->room] ? seek(t->entries, what->page, what->line) : entry;
}

static bool make_bigger(struct linepages_table *t)
{
    struct linepage *old = t->entries;
    size_t n = t->room;

    t->entries = new_entries(n + n / 2);
    if (!t->entries) {
        t->entries = old;
        return false;
    }
    t->room = n + n / 2;
    for (size_t i = 0; i < n; i++)
        if (old[i].touched)
            *find(t, &old[i]) = old[i];
    free(old);
    return true;
}

/* The homes of those of n that go into a table which moved. */
static void move_homes(struct linepages *p, const struct linepages_table *t, struct linepages_late *late,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = linepages_hash(late[i].what.page, late[i].what.line);

        if (linepages_table_of(p, hash) == t)
            late[i].home = linepages_home(t, hash);
    }
}

/* Add the first of n touches to its table. fresh: what of it was not there before. False: out of memory. */
static bool add(struct linepages *p, struct linepages_late *late, size_t n, struct linepages_fresh *fresh)
{
    const struct linepage *what = &late->what;
    struct linepages_table *t = linepages_table_of(p, linepages_hash(what->page, what->line));
    struct linepage *entry = find(t, what);

    *fresh = (struct linepages_fresh){what->line, bits_count(what->touched & ~entry->touched)};
    t->n += !entry->touched;
    *entry = (struct linepage){what->page, entry->touched | what->touched, what->line};
    if (4 * t->n < 3 * t->room)
        return true;
    if (!make_bigger(t))
        return false;
    move_homes(p, t, late, n);
    return true;
}

size_t linepages_touch(struct linepages *p, struct linepages_late *late, size_t n,
                       struct linepages_fresh *fresh)
{
    size_t n_fresh = 0;

    for (; n > 0; late++, n--) {
        const struct linepage *known = seek(late->home, late->what.page, late->what.line);

        if ((late->what.touched & ~known->touched) == 0) /* nearly always */
            continue;
        if (!add(p, late, n, &fresh[n_fresh++]))
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
