/* tables.c - memory for the tables of a library inside the program (ljtrace/protocol/table.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The linker collects the descriptions of all tables. One mapping holds them all, since each mapping costs the program one
 * of its limited number. The kernel gives a page when it is used first.
 */
#include "ljtrace/protocol/table.h"
#include "ljtrace/native/kernel.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, ALIGN = 64 };

/* The linker defines these. */
extern const struct table __start_ljtrace_tables[] __attribute__((weak, visibility("hidden")));
extern const struct table __stop_ljtrace_tables[] __attribute__((weak, visibility("hidden")));
extern const struct table __start_ljtrace_lasting[] __attribute__((weak, visibility("hidden")));
extern const struct table __stop_ljtrace_lasting[] __attribute__((weak, visibility("hidden")));

static uint8_t *s_memory;
static size_t s_lasting, s_all; /* bytes of the lasting tables, which come first, and of all */

static size_t rounded(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Let the tables point into the memory from this offset, if there is memory. Returns the offset of their end. */
static size_t place(const struct table *from, const struct table *to, size_t at)
{
    for (const struct table *t = from; t < to; t++) {
        if (s_memory)
            *(uint8_t **)t->pointer = s_memory + at;
        at += rounded(t->bytes, ALIGN);
    }
    return rounded(at, PAGE);
}

static void place_all(void)
{
    s_lasting = place(__start_ljtrace_lasting, __stop_ljtrace_lasting, 0);
    s_all = place(__start_ljtrace_tables, __stop_ljtrace_tables, s_lasting);
}

void tables_map(void)
{
    if (s_memory)
        return;
    place_all();
    const long at = kernel_call(SYS_mmap, 0, (long)s_all, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at < 0 && at > -PAGE)
        return;
    s_memory = (uint8_t *)at;
    place_all();
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
    return s_memory != NULL;
}

void tables_clear(void)
{
    if (s_memory)
        kernel_call(SYS_madvise, (long)(s_memory + s_lasting), (long)(s_all - s_lasting), MADV_DONTNEED, 0, 0,
                    0);
}
