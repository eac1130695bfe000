/* info.c - write pairs of key and value into the ring. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/ring/info.h"
#include "ljtrace/valgrind/ring/records.h"
#include "pub_tool_libcprint.h"

void lt_put_info(const HChar *key, const HChar *value)
{
    RING_PUT(info, .key = lt_text(key), .value = lt_text(value));
}

void lt_put_number(const HChar *key, ULong n)
{
    HChar text[32];
    VG_(snprintf)(text, sizeof text, "%llu", n);
    lt_put_info(key, text);
}
