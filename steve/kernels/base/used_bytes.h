/* used_bytes.h - which bytes of a block were used, in 64 bits.
 *
 * A block is seen as at most 64 parts of equal size, a power of two (1 byte for blocks of up to 64 bytes),
 * and a part is used when any byte of it is. A Resize keeps what was used below the new size, in parts of the
 * new size.
 *
 * Where a trace is read in parts, what a block had used before is not known when its Resizes are; what these
 * do to it is put down instead: see struct usedparts_map.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_BASE_USED_BYTES_H
#define STEVE_KERNELS_BASE_USED_BYTES_H

#include <stdbool.h>
#include <stdint.h>

/* log2 of the bytes of a part */
static inline uint8_t usedparts_shift(uint64_t size)
{
    return size <= 64 ? 0 : (uint8_t)(58 - __builtin_clzll(size - 1));
}

/* The parts that bytes first to last lie in. */
static inline uint64_t usedparts_of(uint8_t shift, uint64_t first, uint64_t last)
{
    uint64_t low = first >> shift, high = last >> shift;

    if (low > 63)
        return 0;
    return (high >= 63 ? UINT64_MAX : ((uint64_t)2 << high) - 1) & ~(((uint64_t)1 << low) - 1);
}

/* The same of bytes that are known to lie in the block whose parts they are. */
static inline uint64_t usedparts_within(uint8_t shift, uint64_t first, uint64_t last)
{
    return (((uint64_t)2 << (last >> shift & 63)) - 1) & ~(((uint64_t)1 << (first >> shift & 63)) - 1);
}

/* The same after a Resize from one size to another. */
uint64_t usedparts_resized(uint64_t parts, uint64_t from, uint64_t to);
/* Bytes of the used parts of a block; the last part may be cut by the end of the block. */
uint64_t usedparts_bytes(uint64_t parts, uint64_t size);
/* Bytes from the beginning of a block to the end of its last used part. */
uint64_t usedparts_extent(uint64_t parts, uint64_t size);

/* The effect of a series of Resizes on used parts: each part becomes the bytes around it at the coarsest shift of the
 * series, [begin, begin + 2^coarse), cut at `end`. It is lost if it begins at `kept` or after. */
struct usedparts_map {
    uint64_t kept, end; /* bytes; UINT64_MAX: no bound */
    uint8_t first;      /* shift before the first Resize */
    uint8_t coarse;
    bool changes; /* false: nothing was resized, and the rest means nothing */
};

/* Another Resize. */
void usedparts_map_add(struct usedparts_map *m, uint64_t from, uint64_t to);
/* The parts, used before all those Resizes, of a block that has `size` after them. */
uint64_t usedparts_mapped(const struct usedparts_map *m, uint64_t parts, uint64_t size);

#endif
