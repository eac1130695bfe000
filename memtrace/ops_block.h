/* ops_block.h - the headers of blocks in binary ops files: what they say, and what they may say.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_BLOCK_H
#define MEMTRACE_OPS_BLOCK_H

#include "format.h"
#include "ops_binary.h"
#include "ops_code.h"

struct ops_block {
    uint32_t count, size, stored;
    uint64_t total, hash;
};

/* How many operations a block has at most. */
static inline uint32_t ops_most_operations(uint8_t version)
{
    return version < OPS_VERSION_LARGE ? OPS_SMALL_BLOCK : OPS_BLOCK;
}

/* How many bytes they take: as foreseen none, where there are shapes. */
static inline uint32_t ops_least_size(uint8_t version, uint32_t count)
{
    return version < OPS_VERSION_SHAPES ? count : count > 0;
}

/* Without operations: the end, of no bytes, or a piece of the list of ordinals.h. */
static inline uint32_t ops_most_size(uint8_t version, enum ops_kind kind, uint32_t count)
{
    const bool lists = version >= OPS_VERSION_UNFREED && kind == OPS_ACCESS;
    return count ? count * OPS_LONGEST : lists ? ORDINALS_SIZE : 0;
}

/* False if no block can be of such sizes. */
static inline bool ops_block_parse(const uint8_t *header, uint8_t version, enum ops_kind kind,
                                   struct ops_block *b)
{
    *b = (struct ops_block){.count = load_u32(header),
                            .size = load_u32(header + 4),
                            .stored = load_u32(header + 8),
                            .total = load_u64(header + 16),
                            .hash = load_u64(header + 24)};
    return b->count <= ops_most_operations(version) && b->size >= ops_least_size(version, b->count) &&
           b->size <= ops_most_size(version, kind, b->count) && b->stored <= ZSTD_compressBound(b->size) &&
           load_u32(header + 12) == 0 && (b->size || !b->stored);
}

#endif
