/* input.h - what the fuzz targets of steve have in common: the input as a file that readers open by name.
 *
 * Chunks of a memtrace are guarded by checksums that no fuzzer guesses, so inputs that look like one are
 * repaired first: hashes of headers and payloads are set right in place.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_FUZZ_INPUT_H
#define STEVE_FUZZ_INPUT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "memtrace/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char s_path[64]; /* of the input at hand */

static inline void must(bool ok)
{
    if (!ok)
        abort(); /* out of memory: the kernels' only failure */
}

/* Set the checksums of every chunk right. */
static inline void repair(uint8_t *data, size_t size)
{
    size_t at = FILE_HEADER_SIZE;

    while (at + CHUNK_HEADER_SIZE <= size) {
        uint8_t *h = data + at;
        size_t stored = load_u32(h + 16), rest = size - at - CHUNK_HEADER_SIZE;

        memcpy(h, CHUNK_MAGIC, MAGIC_SIZE);
        if (stored <= rest)
            store_u64(h + 56, XXH3_64bits(h + CHUNK_HEADER_SIZE, stored));
        store_u64(h + 64, XXH3_64bits(h, 64));
        at += CHUNK_HEADER_SIZE + (stored <= rest ? stored : rest);
    }
}

/* Have the bytes at s_path; the descriptor to close afterwards. */
static inline int input_begin(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    int fd = memfd_create("fuzz", 0);

    must(copy && fd >= 0);
    memcpy(copy, data, size);
    if (size > FILE_HEADER_SIZE && memcmp(copy, FILE_MAGIC, 4) == 0)
        repair(copy, size);
    must(write(fd, copy, size) == (ssize_t)size);
    free(copy);
    snprintf(s_path, sizeof s_path, "/proc/self/fd/%d", fd);
    return fd;
}

#endif
