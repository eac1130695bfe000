/* repair.h - make what a fuzzer made of a file of chunks one that readers look into.
 *
 * Chunks are guarded by checksums that no fuzzer guesses: those of headers and payloads are set right in
 * place. So is that of an ops file's header.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_FUZZ_REPAIR_H
#define MEMTRACE_FUZZ_REPAIR_H

#include "memtrace/format.h"

#include <string.h>
#include <xxhash.h>

/* Chunks that follow a header of FILE_HEADER_SIZE bytes. */
static inline void repair_chunks(uint8_t *data, size_t size)
{
    size_t at = FILE_HEADER_SIZE;
    while (at + CHUNK_HEADER_SIZE <= size) {
        uint8_t *h = data + at;
        memcpy(h, CHUNK_MAGIC, MAGIC_SIZE);
        size_t stored = load_u32(h + 16), rest = size - at - CHUNK_HEADER_SIZE;
        if (stored <= rest)
            store_u64(h + 56, XXH3_64bits(h + CHUNK_HEADER_SIZE, stored));
        store_u64(h + 64, XXH3_64bits(h, 64));
        at += CHUNK_HEADER_SIZE + (stored <= rest ? stored : rest);
    }
}

/* What begins as a memtrace, or as an ops file that holds one. */
static inline void repair(uint8_t *data, size_t size)
{
    bool ops = size > FILE_HEADER_SIZE && memcmp(data, "\x7fOPS\r\n\x1a\x06", MAGIC_SIZE) == 0;
    if (ops)
        store_u32(data + 12, (uint32_t)XXH3_64bits(data, 12));
    if (ops || (size > FILE_HEADER_SIZE && memcmp(data, FILE_MAGIC, 4) == 0))
        repair_chunks(data, size);
}

#endif
