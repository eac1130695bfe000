/* varint.c - reads uvarints of more than two bytes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/varint.h"

uint64_t cursor_uvarint_slow(struct cursor *c)
{
    uint64_t v = 0;
    if (cursor_within_eight(c, &v))
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
