/* records.c - the put functions that are generated from ljtrace/protocol/ring.def. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/ring/records.h"

#define RECORD(NAME, name, fields)                                                                           \
    void lt_ring_put_##name(const struct ring_##name *r)                                                     \
    {                                                                                                        \
        ring_put_##name(r);                                                                                  \
    }
#define FAST_RECORD(NAME, name, fields)
#include "ljtrace/protocol/ring.def"
