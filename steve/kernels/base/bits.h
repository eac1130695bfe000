/* bits.h - how many bits are set.
 *
 * The compiler's own __builtin_popcountll is a call of a function with a table, unless an option says that every
 * processor has the instruction, which not every one that Debian runs on has. Source of the algorithm: sums
 * side by side, of pairs, fours and bytes (Anderson, Bit Twiddling Hacks).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_BITS_H
#define STEVE_KERNELS_BASE_BITS_H

#include <stdint.h>

static inline unsigned bits_count(uint64_t v)
{
    v -= v >> 1 & UINT64_C(0x5555555555555555);
    v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
    v = (v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(v * UINT64_C(0x0101010101010101) >> 56);
}

#endif
