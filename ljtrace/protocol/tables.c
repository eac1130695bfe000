/* tables.c - memory for the tables of a library inside the program (ljtrace/protocol/table.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The linker collects the descriptions of all tables. Two mappings hold them all, that of the lasting ones and that of the
 * others, since each mapping costs the program one of its limited number. The kernel gives a page when it is used first.
 */
#include "ljtrace/protocol/table.h"
#include "ljtrace/protocol/kernel.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { ALIGN = 64 };

/* The linker defines these. */
extern const struct table __start_ljtrace_tables[] __attribute__((weak, visibility("hidden")));
extern const struct table __stop_ljtrace_tables[] __attribute__((weak, visibility("hidden")));
extern const struct table __start_ljtrace_lasting[] __attribute__((weak, visibility("hidden")));
extern const struct table __stop_ljtrace_lasting[] __attribute__((weak, visibility("hidden")));

static uint8_t *s_lasting, *s_others; /* NULL = not mapped */

static size_t aligned(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t bytes_of(const struct table *from, const struct table *to)
{
    size_t bytes = 0;
    for (const struct table *t = from; t < to; t++)
        bytes += aligned(t->bytes);
    return bytes;
}

/* Map memory for these tables, to which they then point. NULL = there is none. */
static uint8_t *map(const struct table *from, const struct table *to)
{
    const size_t bytes = bytes_of(from, to);
    const long at = kernel_call(SYS_mmap, 0, (long)(bytes ? bytes : 1), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at < 0 && at > -KERNEL_PAGE)
        return NULL;
    uint8_t *next = (uint8_t *)at;
    for (const struct table *t = from; t < to; t++) {
        *(uint8_t **)t->pointer = next;
        next += aligned(t->bytes);
    }
    return (uint8_t *)at;
}

void tables_map(void)
{
    if (!s_lasting)
        s_lasting = map(__start_ljtrace_lasting, __stop_ljtrace_lasting);
    if (!s_others)
        s_others = map(__start_ljtrace_tables, __stop_ljtrace_tables);
}

#ifdef LJTRACE_MAPS_TABLES_FIRST
/* The priority is the highest of a library. */
__attribute__((constructor(101))) static void map_first(void)
{
    tables_map();
}
#endif

bool tables_are_mapped(void)
{
    return s_lasting && s_others;
}

void tables_unmap(void)
{
    const size_t bytes = bytes_of(__start_ljtrace_tables, __stop_ljtrace_tables);
    if (s_others)
        kernel_call(SYS_munmap, (long)s_others, (long)(bytes ? bytes : 1), 0, 0, 0, 0);
    s_others = NULL;
}

size_t tables_place(bool lasting, const void **at)
{
    *at = lasting ? s_lasting : s_others;
    return lasting ? bytes_of(__start_ljtrace_lasting, __stop_ljtrace_lasting)
                   : bytes_of(__start_ljtrace_tables, __stop_ljtrace_tables);
}

size_t memory_touched(const void *from, size_t bytes)
{
    enum { PAGES = 1024 };
    uint8_t resident[PAGES];
    size_t found = 0;
    for (size_t at = 0; from && at < bytes; at += (size_t)PAGES * KERNEL_PAGE) {
        const size_t some =
            bytes - at < (size_t)PAGES * KERNEL_PAGE ? bytes - at : (size_t)PAGES * KERNEL_PAGE;
        if (kernel_call(SYS_mincore, (long)from + (long)at, (long)some, (long)resident, 0, 0, 0) != 0)
            return found;
        for (size_t page = 0; page * KERNEL_PAGE < some; page++)
            found += resident[page] & 1 ? KERNEL_PAGE : 0;
    }
    return found;
}

size_t tables_touched(void)
{
    return memory_touched(s_lasting, bytes_of(__start_ljtrace_lasting, __stop_ljtrace_lasting)) +
           memory_touched(s_others, bytes_of(__start_ljtrace_tables, __stop_ljtrace_tables));
}
