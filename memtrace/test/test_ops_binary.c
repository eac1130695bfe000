/* test_ops_binary.c - binary ops files are read as they were written, and damage to any byte is detected.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 2 * OPS_PIECE + 20000 }; /* more than two blocks */

/* Give operations threads and times: random ones, or as in a program that has both. */
static void mark(struct op *ops, size_t n, bool wild)
{
    uint64_t seed = n, time = 0;
    for (size_t i = 0; i < n; i++) {
        ops[i].thread = wild ? random_below(&seed, OPS_MOST_THREADS + 1) : 1 + i / 100 % 7;
        ops[i].time = wild ? random_next(&seed) >> random_below(&seed, 64) : (time += i % 3 * 50);
    }
}

/* Operations of a kind; wild: any numbers, otherwise like those of a program. */
static struct op *operations(size_t n, enum ops_kind kind, bool wild)
{
    static const uint32_t codes[2][6] = {{OP_NEW, OP_FREE, OP_RESIZE, OP_LOAD, OP_STORE, OP_MODIFY},
                                         {OP_NEW, OP_FREE, OP_RESIZE, OP_LOCK, OP_UNLOCK, OP_COMPACT}};
    struct op *ops = calloc(n, sizeof *ops);
    uint64_t seed = n + wild, handles = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t code = codes[kind == OPS_LOCK][random_below(&seed, 6)];
        ops[i] = (struct op){random_next(&seed) >> random_below(&seed, 64),
                             random_next(&seed) >> random_below(&seed, 64),
                             random_next(&seed) >> random_below(&seed, 64),
                             code,
                             0,
                             0};
        if (!wild)
            ops[i] = (struct op){code == OP_NEW ? handles++ : random_below(&seed, handles + 1),
                                 4096 + 16 * random_below(&seed, 4096),
                                 code == OP_FREE ? 0 : 8,
                                 code,
                                 0,
                                 0};
    }
    return ops;
}

static void check_roundtrip(enum ops_form form, enum ops_kind kind, bool wild, size_t n)
{
    struct op *ops = operations(n, kind, wild);
    if (wild || n % 2)
        mark(ops, n, wild);
    struct bytes file = packed(ops, n, form, kind);
    struct result out = read_back(file.data, file.size, ops, form == OPS_BINARY ? OPS_UNKNOWN : kind);
    assert_int_equal(out.last, MT_END);
    assert_int_equal(out.count, n);
    assert_int_equal(out.equal, n);
    free(ops);
    free(file.data);
}

static void test_roundtrip(void **state)
{
    static const size_t sizes[] = {0, 1, OPS_PIECE - 1, OPS_PIECE, OPS_PIECE + 1, MANY};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (enum ops_kind kind = OPS_ACCESS; kind <= OPS_LOCK; kind++) {
            check_roundtrip(OPS_BINARY, kind, false, sizes[i]);
            check_roundtrip(OPS_BINARY, kind, true, sizes[i]);
            check_roundtrip(OPS_TEXT_ZSTD, kind, true, sizes[i]);
        }
}

static void test_is_compact(void **state)
{
    struct op *ops = operations(MANY, OPS_ACCESS, false);
    struct bytes binary = packed(ops, MANY, OPS_BINARY, OPS_ACCESS);
    struct bytes text = packed(ops, MANY, OPS_TEXT, OPS_ACCESS);
    assert_true(binary.size * 3 < text.size);
    free(ops);
    free(binary.data);
    free(text.data);
}

/* A file cut off anywhere delivers only what was written, and an error. */
static void test_cut(void **state)
{
    enum { N = 500 };
    struct op *ops = operations(N, OPS_ACCESS, false);
    struct bytes file = packed(ops, N, OPS_BINARY, OPS_ACCESS);
    for (size_t size = 9; size < file.size; size++) {
        struct result out = read_back(file.data, size, ops, OPS_UNKNOWN);
        assert_int_equal(out.last, MT_ERROR);
        assert_int_equal(out.err.code, MT_E_TRUNCATED);
        assert_int_equal(out.equal, out.count);
        assert_non_null(strstr(out.err.text, "offset"));
    }
    free(ops);
    free(file.data);
}

/* A byte changed anywhere gives an error and no wrong operation. */
static void test_flip(void **state)
{
    enum { N = 300 };
    struct op *ops = operations(N, OPS_LOCK, false);
    struct bytes file = packed(ops, N, OPS_BINARY, OPS_LOCK);
    for (size_t i = 0; i < file.size; i++) {
        file.data[i] ^= 0x11;
        struct result out = read_back(file.data, file.size, ops, OPS_UNKNOWN);
        assert_int_equal(out.last, MT_ERROR);
        assert_int_equal(out.equal, out.count);
        file.data[i] ^= 0x11;
    }
    free(ops);
    free(file.data);
}

static void expect_error(struct bytes file, size_t size, enum ops_kind hint, enum mt_error_code code,
                         const char *text)
{
    static const struct op none;
    struct result out = read_back(file.data, size, &none, hint);
    assert_int_equal(out.last, MT_ERROR);
    assert_int_equal(out.err.code, code);
    assert_non_null(strstr(out.err.text, text));
}

static void test_wrong(void **state)
{
    struct bytes file = packed(NULL, 0, OPS_BINARY, OPS_LOCK);
    expect_error(file, file.size, OPS_ACCESS, MT_E_FORMAT, "binary file of lockops");
    append_bytes(&file, "x", 1);
    expect_error(file, file.size, OPS_LOCK, MT_E_CORRUPT, "bytes follow the end");
    file.data[8] = 7;
    expect_error(file, file.size - 1, OPS_UNKNOWN, MT_E_CORRUPT, "kind of file");
    file.data[7] = 2; /* the version of copies (test_ops_copy.c) */
    expect_error(file, file.size - 1, OPS_UNKNOWN, MT_E_CORRUPT, "checksum of the file's header");
    file.data[7] = 3;
    expect_error(file, file.size - 1, OPS_UNKNOWN, MT_E_VERSION, "version 3, this program knows 1 to 2");
    file.data[7] = 0;
    expect_error(file, file.size - 1, OPS_UNKNOWN, MT_E_VERSION, "version 0");
    free(file.data);
}

/* The maximum number of operations of a block. */
static void test_largest_block(void **state)
{
    struct op *ops = operations(OPS_PIECE, OPS_ACCESS, false);
    struct bytes file = packed(ops, OPS_PIECE, OPS_BINARY, OPS_ACCESS);
    file.data[9]++; /* the count */
    expect_error(file, file.size, OPS_UNKNOWN, MT_E_CORRUPT, "impossible sizes");
    free(file.data);
    free(ops);
}

static void test_large_thread(void **state)
{
    static const struct op op = {1, 2, 3, OP_NEW, OPS_MOST_THREADS + 1, 0};
    struct mt_error err;
    int fd = memory_file("", 0);
    struct ops_writer *w = ops_writer_open(fd, OPS_BINARY, OPS_ACCESS, &err);
    ops_write(w, &op, 1);
    assert_int_equal(ops_writer_finish(w, &err), MT_ERROR);
    close(fd);
    struct bytes text = packed(&op, 1, OPS_TEXT, OPS_ACCESS);
    expect_error(text, text.size, OPS_ACCESS, MT_E_CORRUPT, "line 1: threads");
    free(text.data);
}

/* Operations of the other kind cannot be written to a file, because the reader would reject it. */
static void test_other_kind(void **state)
{
    struct mt_error err;
    int fd = memory_file("", 0);
    struct ops_writer *w = ops_writer_open(fd, OPS_BINARY, OPS_ACCESS, &err);
    ops_write(w, (const struct op[]){{.code = OP_NEW}, {.code = OP_UNLOCK}}, 2);
    assert_int_equal(ops_writer_finish(w, &err), MT_ERROR);
    assert_int_equal(err.code, MT_E_FORMAT);
    assert_string_equal(err.text, "operation 6 is not allowed in this kind of file");
    close(fd);
}

static void test_write_error(void **state)
{
    static const struct op op = {1, 2, 3, OP_NEW, 0, 0};
    for (enum ops_form form = OPS_TEXT_ZSTD; form <= OPS_BINARY; form++) {
        struct mt_error err;
        FILE *full = fopen("/dev/full", "w");
        struct ops_writer *w = ops_writer_open(fileno(full), form, OPS_ACCESS, &err);
        ops_write(w, &op, 1);
        assert_int_equal(ops_writer_finish(w, &err), MT_ERROR);
        assert_int_equal(err.code, MT_E_IO);
        fclose(full);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roundtrip),     cmocka_unit_test(test_is_compact),
        cmocka_unit_test(test_cut),           cmocka_unit_test(test_flip),
        cmocka_unit_test(test_wrong),         cmocka_unit_test(test_other_kind),
        cmocka_unit_test(test_write_error),   cmocka_unit_test(test_large_thread),
        cmocka_unit_test(test_largest_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
