/* line_pages.h - which lines of the program touched which lines of 64 bytes of the address space (cache
 * lines).
 *
 * 64 cache lines, a page, share a word of bits for each line of the program that touched any of them: exact,
 * and O(pages x lines that touch them). This is the largest part of what counting by line holds, so entries
 * have no gaps, and the table is many small ones that grow by themselves, by half: only one of them is there
 * twice then.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LINES_LINE_PAGES_H
#define STEVE_KERNELS_LINES_LINE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINEPAGES_TABLES 64

struct __attribute__((packed, aligned(4))) linepage {
    uint64_t page;    /* addr >> 12 */
    uint64_t touched; /* a bit for each of its cache lines; 0 = the entry is free */
    uint32_t line;
};

/* Open addressing, at most three quarters full. */
struct linepages_table {
    struct linepage *entries; /* after the last one there is a free one, which ends a search */
    size_t room, n;           /* how many there are; in use */
};

struct linepages {
    struct linepages_table tables[LINEPAGES_TABLES];
};

/* What is on its way into a table, and where it is looked for there. */
struct linepages_late {
    struct linepage *home;
    struct linepage what;
};
/* That one of those touched cache lines it had not touched before. */
struct linepages_fresh {
    uint32_t line, n;
};

bool linepages_init(struct linepages *p); /* false: out of memory; free it then, too */
void linepages_free(struct linepages *p);

/* Numbers of lines are small: this differs in many bits. */
static inline uint64_t linepages_spread(uint32_t line)
{
    return (uint64_t)line * 0x9E3779B1u;
}

/* A page and a line are looked for by this. */
static inline uint64_t linepages_hash(uint64_t page, uint32_t line)
{
    return (page + linepages_spread(line)) * 0x9E3779B97F4A7C15u;
}

/* Its highest bits choose the table, others the place in it. */
static inline struct linepages_table *linepages_table_of(struct linepages *p, uint64_t hash)
{
    return &p->tables[hash >> 58];
}

static inline struct linepage *linepages_home(const struct linepages_table *t, uint64_t hash)
{
    return &t->entries[(hash >> 20 & UINT32_MAX) * t->room >> 32];
}

/* A line touches cache lines of a page: an element of the array for the next call of linepages_touch, which
 * has all that were begun since the last one, for tables move when they grow. What it needs is brought near.
 */
static inline struct linepages_late linepages_begin(struct linepages *p, uint64_t page, uint64_t bits,
                                                    uint32_t line)
{
    const uint64_t hash = linepages_hash(page, line);
    struct linepage *home = linepages_home(linepages_table_of(p, hash), hash);

    __builtin_prefetch(home, 1);
    return (struct linepages_late){home, {page, bits, line}};
}

/* Enter n of these; there is room for as many in `fresh`: how many there are, SIZE_MAX when out of memory. */
size_t linepages_touch(struct linepages *p, struct linepages_late *late, size_t n,
                       struct linepages_fresh *fresh);

/* How many pages there are for all lines, and a copy of them. */
size_t linepages_count(const struct linepages *p);
void linepages_copy(const struct linepages *p, struct linepage *to);

#endif
