/* lt_peek.c - see lt_peek.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "lt_peek.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"

Bool lt_readable(Addr a, SizeT n)
{
    return a >= 4096 && a + n > a && VG_(am_is_valid_for_client)(a, n, VKI_PROT_READ);
}

Bool lt_peek(Addr a, void *to, SizeT n)
{
    if (!lt_readable(a, n))
        return False;
    VG_(memcpy)(to, (const void *)a, n);
    return True;
}

ULong lt_peek_number(Addr a, UInt size)
{
    ULong v = 0;
    if (!lt_readable(a, size))
        return 0;
    switch (size) {
    case 1:
        return *(const UChar *)a;
    case 2:
        return *(const UShort *)a;
    case 4:
        return *(const UInt *)a;
    default:
        VG_(memcpy)(&v, (const void *)a, size);
        return v;
    }
}
