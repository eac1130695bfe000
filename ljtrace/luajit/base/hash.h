/* hash.h - the slot of a key in a direct-mapped cache.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_BASE_HASH_H
#define LJTRACE_LUAJIT_BASE_HASH_H

#include <stdint.h>

/* A slot of a table of 2^bits, by a multiplication whose upper bits depend on all bits of the key. */
static inline uint32_t lt_hash_slot(uint64_t key, uint32_t bits)
{
    return (uint32_t)((key * 0x9e3779b97f4a7c15ULL) >> (64 - bits));
}

#endif
