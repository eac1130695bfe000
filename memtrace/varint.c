/* varint.c - the long form of uvarint reading; see varint.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "varint.h"

#include <stddef.h>

/* The seven low bits of each of eight bytes, side by side: neighbours are joined, then pairs, then fours. */
static uint64_t join_sevens(uint64_t w)
{
    w = (w & UINT64_C(0x007f007f007f007f)) | (w & UINT64_C(0x7f007f007f007f00)) >> 1;
    w = (w & UINT64_C(0x00003fff00003fff)) | (w & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (w & UINT64_C(0x000000000fffffff)) | (w & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* A number of up to eight bytes, without a branch that depends on how many; false if it is none, or if there
 * are not eight bytes. */
static inline bool take_within_eight(struct cursor *c, uint64_t *v)
{
    uint64_t bytes, ends;
    if (c->end - c->p < (ptrdiff_t)sizeof bytes)
        return false;
    memcpy(&bytes, c->p, sizeof bytes);
    bytes = le64toh(bytes);
    ends = ~bytes & UINT64_C(0x8080808080808080);
    if (ends == 0)
        return false;
    *v = join_sevens(bytes & (ends ^ (ends - 1)));
    c->p += __builtin_ctzll(ends) / 8 + 1;
    return true;
}

uint64_t cursor_uvarint_slow(struct cursor *c)
{
    uint64_t v = 0;
    if (take_within_eight(c, &v))
        return c->bad ? 0 : v;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = cursor_byte(c);
        if (shift == 63 && byte > 1)
            break;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return c->bad ? 0 : v;
    }
    c->bad = true;
    return 0;
}
