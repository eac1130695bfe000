/* fuzz_ops.c - fuzz target: any bytes as an ops file of each kind.
 *
 * Operations that were read are written and read again. The bytes are also read as the payload of a block of a binary
 * file, because the hash of a block would keep changed bytes from the decoder. A reader of it that skips accesses
 * must deliver the same other operations and end alike. Finally, the bytes are read as a list of blocks that are
 * never freed, which must be the same for a reader of the list only and for a reader of the whole file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memtrace/format/chunk.h"
#include "memtrace/ops/binary.h"

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

/* Copy the operations of one file to another by reader and writer, and return their number. */
static uint64_t copy_ops(int from, int to, enum ops_kind kind)
{
    const struct op *ops;
    size_t n;
    uint64_t count = 0;
    struct mt_error err = {0};
    struct ops_reader *r = ops_open(path_of(from), kind, &err);
    struct ops_writer *w = ops_writer_open(to, OPS_TEXT, OPS_ACCESS, &err);
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

static bool is_access(const struct op *op)
{
    return op->code >= OP_LOAD && op->code <= OP_MODIFY;
}

/* Store codes and handles of the operations of a binary file that are not accesses in `found`, and return their
 * number. *end is how reading ended. */
enum { FOUND_MOST = 1 << 17 };
static size_t find_others(int fd, bool passing, struct op *found, int *end)
{
    const struct op *ops;
    size_t n, count = 0;
    struct mt_error err = {0};
    struct ops_reader *r = ops_open(path_of(fd), OPS_UNKNOWN, &err);
    if (r && passing)
        ops_pass_accesses(r);
    while (r && (*end = ops_next(r, &ops, &n)) == MT_MORE)
        for (size_t i = 0; i < n; i++)
            if (!is_access(&ops[i]) && count < FOUND_MOST)
                found[count++] = ops[i];
    ops_close(r);
    return count;
}

/* A reader that skips accesses must deliver the same other operations; after damage, possibly fewer. */
static void compare_passing(int fd)
{
    static struct op all[FOUND_MOST], passed[FOUND_MOST];
    int end = MT_ERROR, end_passed = MT_ERROR;
    size_t n = find_others(fd, false, all, &end), n_passed = find_others(fd, true, passed, &end_passed);
    if (end != end_passed || (end == MT_END && n != n_passed))
        abort();
    for (size_t i = 0; i < n && i < n_passed; i++)
        if (all[i].code != passed[i].code || all[i].handle != passed[i].handle ||
            all[i].size != passed[i].size)
            abort();
}

/* A block of `count` operations, after which there are `total` in the file. */
static void put_block(int fd, uint32_t count, uint32_t total, const uint8_t *payload, size_t size)
{
    uint8_t header[OPS_HEADER_SIZE] = {0}, stored[8192];
    size_t n = size ? ZSTD_compress(stored, sizeof stored, payload, size, 1) : 0;
    if (ZSTD_isError(n))
        abort();
    store_u32(header, count);
    store_u32(header + 4, (uint32_t)size);
    store_u32(header + 8, (uint32_t)n);
    store_u64(header + 16, total);
    store_u64(header + 24, ops_block_hash(header, stored, n));
    if (write(fd, header, sizeof header) != sizeof header || write(fd, stored, n) != (ssize_t)n)
        abort();
}

/* A list in a file of a few News. */
static void check_list(const uint8_t *data, size_t size)
{
    static const uint8_t news[] = "\x70\x70\x70\x70\x70\x70\x70\x70";
    enum { NEWS = sizeof news - 1 };
    int in = memfd_create("fuzz", 0), end = MT_ERROR;
    struct op found[NEWS];
    uint64_t *list;
    size_t n;
    if (in < 0 || write(in, OPS_MAGIC "\1", OPS_MAGIC_SIZE + 1) != OPS_MAGIC_SIZE + 1)
        abort();
    put_block(in, NEWS, NEWS, news, NEWS);
    put_block(in, 0, NEWS, data, size);
    put_block(in, 0, NEWS, NULL, 0);
    bool listed = ops_read_survivors(path_of(in), &list, &n);
    if (find_others(in, false, found, &end) != NEWS || listed != (end == MT_END) || n > NEWS)
        abort();
    free(list);
    close(in);
}

static void decode_payload(const uint8_t *data, size_t size)
{
    for (uint8_t kind = OPS_ACCESS; kind <= OPS_LOCK; kind++) {
        int in = memfd_create("fuzz", 0), out = memfd_create("fuzz", 0);
        if (in < 0 || out < 0 || write(in, OPS_MAGIC, OPS_MAGIC_SIZE) != OPS_MAGIC_SIZE ||
            write(in, &kind, 1) != 1)
            abort();
        put_block(in, 1u + data[0] + 256u * data[1], 1u + data[0] + 256u * data[1], data + 2, size - 2);
        if (kind == OPS_ACCESS)
            compare_passing(in);
        copy_ops(in, out, OPS_UNKNOWN);
        close(in);
        close(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 2 && size < 8000) {
        decode_payload(data, size);
        check_list(data, size);
    }
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
