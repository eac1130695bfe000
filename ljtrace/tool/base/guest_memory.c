/* guest_memory.c - read the program's memory; what is not readable is read as zero. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/tool/base/guest_memory.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"

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
    const NSegment *s = VG_(am_find_nsegment)(a);
    if (!s || !s->hasR || !(s->kind & (SkFileC | SkAnonC | SkShmC)))
        return False;
    if (a + n - 1 > s->end)
        return VG_(am_is_valid_for_client)(a, n, VKI_PROT_READ);
    s_range[s_next].from = s->start;
    s_range[s_next].to = s->end + 1;
    s_next = (s_next + 1) % RANGES;
    if (s_ranges < RANGES)
        s_ranges++;
    return True;
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
