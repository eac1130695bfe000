/* program_memory.c - read the program's memory; what is not readable is read as zero.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/host.h"
#include <string.h>

enum { RANGES = 8 };

/* Segments that were found readable since the program last ran. */
static struct {
    uint64_t from, to;
} s_range[RANGES];
static uint32_t s_ranges, s_next;

/* Of program_freeze(): the numbers of pages that were found readable, indexed by their low bits; 0 = none. NULL = the
 * program goes on. */
static uint64_t *s_frozen;

uint64_t program_pages[PROGRAM_PAGES];
uint32_t program_turn = 1; /* an entry is never 0 */

void program_forget(void)
{
    s_ranges = s_next = 0;
    program_turn++;
    if (program_turn % (1 << PROGRAM_TURN_BITS))
        return;
    memset(program_pages, 0, sizeof program_pages); /* from now on, entries are those of earlier turns */
    program_turn++;
}

void program_freeze(uint64_t *pages)
{
    s_frozen = pages;
}

/* Were the pages of these bytes, of which there are two at most, found readable after program_freeze()? */
static bool is_frozen(uint64_t a, size_t n)
{
    const uint64_t first = a >> PROGRAM_PAGE_BITS, last = (a + n - 1) >> PROGRAM_PAGE_BITS;
    return last - first <= 1 && s_frozen[first % PROGRAM_FROZEN_PAGES] == first &&
           s_frozen[last % PROGRAM_FROZEN_PAGES] == last;
}

static void keep_frozen(uint64_t from, uint64_t to)
{
    for (uint64_t page = from >> PROGRAM_PAGE_BITS; page < to >> PROGRAM_PAGE_BITS; page++)
        s_frozen[page % PROGRAM_FROZEN_PAGES] = page;
}

static bool look_up(uint64_t a, size_t n)
{
    uint64_t from, to;
    if (s_frozen && is_frozen(a, n))
        return true;
    if (!host_readable(a, n, &from, &to))
        return false;
    if (s_frozen)
        keep_frozen(from, to);
    if (from == to)
        return true;
    s_range[s_next].from = from;
    s_range[s_next].to = to;
    s_next = (s_next + 1) % RANGES;
    if (s_ranges < RANGES)
        s_ranges++;
    return true;
}

void program_doubt(uint64_t a)
{
    if (host_mappings_are_known())
        return;
    program_pages[(a >> PROGRAM_PAGE_BITS) % PROGRAM_PAGES] = 0;
    for (uint32_t i = 0; i < s_ranges; i++)
        if (a >= s_range[i].from && a < s_range[i].to)
            s_range[i].from = s_range[i].to = 0;
}

bool program_readable(uint64_t a, size_t n)
{
    if (a < 4096 || a + n <= a)
        return false;
    for (uint32_t i = 0; i < s_ranges; i++)
        if (a >= s_range[i].from && a + n <= s_range[i].to)
            return true;
    return look_up(a, n);
}

bool program_read(uint64_t a, void *to, size_t n)
{
    if (!program_readable(a, n))
        return false;
    memcpy(to, (const void *)a, n);
    return true;
}

size_t program_text_length(uint64_t a, size_t most)
{
    size_t n = 0;
    while (n < most && program_readable(a + n, 1) && *(const char *)(a + n))
        n++;
    return n;
}

size_t program_text(uint64_t a, char *to, size_t room)
{
    size_t n = program_text_length(a, room - 1);
    memcpy(to, (const void *)a, n);
    to[n] = 0;
    return n;
}

/* Memory is mapped by whole pages. */
static bool is_page_readable(uint64_t page)
{
    if (!program_readable(page << PROGRAM_PAGE_BITS, (size_t)1 << PROGRAM_PAGE_BITS))
        return false;
    program_pages[page % PROGRAM_PAGES] = program_page_entry(page);
    return true;
}

uint64_t program_number_slowly(uint64_t a, uint32_t size)
{
    uint64_t v = 0;
    const uint64_t page = a >> PROGRAM_PAGE_BITS, last = (a + size - 1) >> PROGRAM_PAGE_BITS;
    if (!is_page_readable(page) || (last != page && !is_page_readable(last)))
        return 0;
    memcpy(&v, (const void *)a, size); /* little-endian */
    return v;
}
