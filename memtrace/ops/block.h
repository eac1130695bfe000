/* block.h - reads and checks the headers of blocks in binary ops files.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_OPS_BLOCK_H
#define MEMTRACE_OPS_BLOCK_H

#include "memtrace/format/chunk.h"
#include "memtrace/ops/binary.h"
#include "memtrace/ops/op_coding.h"

struct ops_block {
    uint32_t count, size, stored;
    uint64_t total, hash;
};

/* Maximum size of the operations of a block. A block without operations is the end of the file, with 0 bytes, or a
 * piece of the list of memtrace/base/id_list.h. */
static inline uint32_t ops_most_size(enum ops_kind kind, uint32_t count)
{
    return count ? count * OPS_LONGEST : kind == OPS_ACCESS ? ID_LIST_SIZE : 0;
}

/* False if the sizes in a header are impossible. */
static inline bool ops_block_parse(const uint8_t *header, enum ops_kind kind, struct ops_block *b)
{
    *b = (struct ops_block){.count = load_u32(header),
                            .size = load_u32(header + 4),
                            .stored = load_u32(header + 8),
                            .total = load_u64(header + 16),
                            .hash = load_u64(header + 24)};
    return b->count <= OPS_BLOCK && (b->size || (!b->count && !b->stored)) &&
           b->size <= ops_most_size(kind, b->count) && b->stored <= ZSTD_compressBound(b->size) &&
           load_u32(header + 12) == 0;
}

#endif
