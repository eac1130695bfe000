/* hash.h - the slot of a key in a direct-mapped cache. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_BASE_HASH_H
#define LJTRACE_LUAJIT_BASE_HASH_H

#include "pub_tool_basics.h"

/* A slot of a table of 2^bits, by a multiplication whose upper bits depend on all bits of the key. */
static inline UInt lt_hash_slot(ULong key, UInt bits)
{
    return (UInt)((key * 0x9e3779b97f4a7c15ULL) >> (64 - bits));
}

#endif
