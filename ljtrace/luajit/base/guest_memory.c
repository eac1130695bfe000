/* guest_memory.c - read the program's memory; what is not readable is read as zero. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/guest_memory.h"
#include "ljtrace/valgrind/base/segments.h"
#include "pub_tool_libcbase.h"

enum { RANGES = 8 };

/* Segments that were found readable since the program last ran. */
static struct {
    Addr from, to;
} s_range[RANGES];
static UInt s_ranges, s_next;
static Bool s_pages; /* the cache of pages is not empty */

UWord lt_guest_pages[LT_GUEST_PAGES];
UInt lt_guest_turn;

void lt_guest_forget(void)
{
    s_ranges = s_next = 0;
    lt_guest_turn++;
    if (s_pages) /* In most programs nothing is ever read, and this is called at each allocation. */
        VG_(memset)(lt_guest_pages, 0, sizeof lt_guest_pages);
    s_pages = False;
}

static Bool look_up(Addr a, SizeT n)
{
    Addr from, to;
    if (!lt_segment_readable(a, n, &from, &to))
        return False;
    if (from == to)
        return True;
    s_range[s_next].from = from;
    s_range[s_next].to = to;
    s_next = (s_next + 1) % RANGES;
    if (s_ranges < RANGES)
        s_ranges++;
    return True;
}

void lt_guest_doubt(Addr a)
{
    if (lt_segments_are_exact)
        return;
    lt_guest_pages[(a >> LT_GUEST_PAGE_BITS) % LT_GUEST_PAGES] = 0;
    for (UInt i = 0; i < s_ranges; i++)
        if (a >= s_range[i].from && a < s_range[i].to)
            s_range[i].from = s_range[i].to = 0;
}

Bool lt_guest_readable(Addr a, SizeT n)
{
    if (a < 4096 || a + n <= a)
        return False;
    for (UInt i = 0; i < s_ranges; i++)
        if (a >= s_range[i].from && a + n <= s_range[i].to)
            return True;
    return look_up(a, n);
}

Bool lt_guest_read(Addr a, void *to, SizeT n)
{
    if (!lt_guest_readable(a, n))
        return False;
    VG_(memcpy)(to, (const void *)a, n);
    return True;
}

SizeT lt_guest_length(Addr a, SizeT most)
{
    SizeT n = 0;
    while (n < most && lt_guest_readable(a + n, 1) && *(const HChar *)(a + n))
        n++;
    return n;
}

SizeT lt_guest_text(Addr a, HChar *to, SizeT room)
{
    SizeT n = lt_guest_length(a, room - 1);
    VG_(memcpy)(to, (const void *)a, n);
    to[n] = 0;
    return n;
}

ULong lt_guest_number_slowly(Addr a, UInt size)
{
    ULong v = 0;
    UWord page = a >> LT_GUEST_PAGE_BITS;
    if (!lt_guest_readable(a, size))
        return 0;
    if (lt_guest_readable(page << LT_GUEST_PAGE_BITS, (SizeT)1 << LT_GUEST_PAGE_BITS)) {
        lt_guest_pages[page % LT_GUEST_PAGES] = page + 1;
        s_pages = True;
    }
    VG_(memcpy)(&v, (const void *)a, size); /* little-endian */
    return v;
}
