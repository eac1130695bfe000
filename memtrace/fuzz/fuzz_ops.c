/* fuzz_ops.c - fuzz target: any bytes as an ops file of each kind; what was read is written and read again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memtrace/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *path_of(int fd)
{
    static char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

/* Copy the operations of one file to another through reader and writer; how many. */
static uint64_t copy_ops(int from, int to, enum ops_kind kind)
{
    const struct op *ops;
    size_t n;
    uint64_t count = 0;
    struct mt_error err = {0};
    struct ops_reader *r = ops_open(path_of(from), kind, &err);
    struct ops_writer *w = ops_writer_new(to, &err);
    if (!w)
        abort();
    while (r && ops_next(r, &ops, &n) == MT_MORE) {
        for (size_t i = 0; i < n; i++)
            if (ops[i].code >= OP_CODES)
                abort();
        ops_write(w, ops, n);
        count += n;
    }
    ops_close(r);
    if (ops_writer_finish(w, &err) != MT_OK)
        abort();
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (enum ops_kind kind = OPS_UNKNOWN; kind <= OPS_LOCK; kind++) {
        int in = memfd_create("fuzz", 0), once = memfd_create("fuzz", 0), twice = memfd_create("fuzz", 0);
        if (in < 0 || once < 0 || twice < 0 || write(in, data, size) != (ssize_t)size)
            abort();
        uint64_t count = copy_ops(in, once, kind);
        if (kind != OPS_UNKNOWN && copy_ops(once, twice, kind) != count)
            abort();
        close(in);
        close(once);
        close(twice);
    }
    return 0;
}
