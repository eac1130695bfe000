/* segments.c - which memory of the program is readable (see ljtrace/tool/base/segments.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The kernel is asked for each page. rt_sigprocmask copies its set from the program before it looks at its other
 * arguments, so with an invalid first argument the error shows whether the set is readable, and nothing is changed.
 *
 * Memory may be unmapped at any time. What LuaJIT itself still uses does not vanish; a pointer that is only a guess has
 * to be announced by lt_guest_doubt.
 */
#include "ljtrace/tool/base/segments.h"
#include "ljtrace/protocol/kernel.h"
#include <errno.h>
#include <sys/syscall.h>

enum { PAGE = 4096 };

const Bool lt_segments_are_exact = False;

Bool lt_segment_readable(Addr a, SizeT n, Addr *from, Addr *to)
{
    *from = a & ~(Addr)(PAGE - 1);
    *to = (a + n + PAGE - 1) & ~(Addr)(PAGE - 1);
    if (a >> 47)
        return False;
    for (Addr page = *from; page < *to; page += PAGE)
        if (!kernel_can_read(page))
            return False;
    return True;
}
