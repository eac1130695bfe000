/* input.h - common code of fuzz targets: the input as a file that readers open by name.
 *
 * Chunks have checksums that a fuzzer cannot guess. Inputs that look like a memtrace, or like an ops file that
 * contains one, are therefore repaired first: hashes of headers and payloads are corrected in place.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_FUZZ_INPUT_H
#define MEMTRACE_FUZZ_INPUT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memtrace/format/chunk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char s_path[64]; /* path of the current input */

/* A condition that does not hold is a finding, or memory ran out. */
static inline void must(bool ok)
{
    if (!ok)
        abort();
}

/* Repair chunks that follow a header of FILE_HEADER_SIZE bytes. */
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

/* Repair an input that begins like a memtrace, or like an ops file that contains one. */
static inline void repair(uint8_t *data, size_t size)
{
    bool ops = size > FILE_HEADER_SIZE && memcmp(data, "\x7fOPS\r\n\x1a\x02", MAGIC_SIZE) == 0;
    if (ops)
        store_u32(data + 12, (uint32_t)XXH3_64bits(data, 12));
    if (ops || (size > FILE_HEADER_SIZE && memcmp(data, FILE_MAGIC, 4) == 0))
        repair_chunks(data, size);
}

/* Make the bytes a file at s_path. Returns a descriptor that the caller closes. */
static inline int input_begin(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    int fd = memfd_create("fuzz", 0);

    must(copy && fd >= 0);
    memcpy(copy, data, size);
    repair(copy, size);
    must(write(fd, copy, size) == (ssize_t)size);
    free(copy);
    snprintf(s_path, sizeof s_path, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
