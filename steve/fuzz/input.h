/* input.h - what the fuzz targets of steve have in common: the input as a file that readers open by name.
 *
 * Inputs that look like a memtrace are repaired first (memtrace/fuzz/repair.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_FUZZ_INPUT_H
#define STEVE_FUZZ_INPUT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memtrace/fuzz/repair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char s_path[64]; /* of the input at hand */

static inline void must(bool ok)
{
    if (!ok)
        abort(); /* out of memory: the kernels' only failure */
}

/* Have the bytes at s_path; the descriptor to close afterwards. */
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
