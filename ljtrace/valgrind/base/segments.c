/* segments.c - which memory of the program is readable. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/base/segments.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_vki.h"

const Bool lt_segments_are_exact = True;

Bool lt_segment_readable(Addr a, SizeT n, Addr *from, Addr *to)
{
    const NSegment *s = VG_(am_find_nsegment)(a);
    *from = *to = 0;
    if (!s || !s->hasR || !(s->kind & (SkFileC | SkAnonC | SkShmC)))
        return False;
    if (a + n - 1 > s->end)
        return VG_(am_is_valid_for_client)(a, n, VKI_PROT_READ);
    *from = s->start;
    *to = s->end + 1;
    return True;
}
