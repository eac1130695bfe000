/* test_ops.c - ops and lockops files: both kinds, their errors, and writing them back byte for byte.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

struct ops {
    struct op *ops;
    size_t count;
    int result;
    enum ops_kind kind;
    struct mt_error err;
};

static struct ops read_path(const char *path, enum ops_kind hint)
{
    struct ops out = {.result = MT_ERROR};
    const struct op *ops;
    size_t n;
    struct ops_reader *r = ops_open(path, hint, &out.err);
    while (r && (out.result = ops_next(r, &ops, &n)) == MT_MORE) {
        out.ops = realloc(out.ops, (out.count + n) * sizeof *ops);
        memcpy(out.ops + out.count, ops, n * sizeof *ops);
        out.count += n;
    }
    if (r) {
        out.err = *ops_reader_error(r);
        out.kind = ops_reader_kind(r);
    }
    ops_close(r);
    return out;
}

static struct ops read_ops(const void *data, size_t size, enum ops_kind hint)
{
    int fd = memory_file(data, size);
    struct ops out = read_path(memory_path(fd), hint);
    close(fd);
    return out;
}

static struct ops read_text(const char *text, enum ops_kind hint)
{
    return read_ops(text, strlen(text), hint);
}

static void expect(const struct ops *o, size_t i, uint64_t handle, enum ops_code code, uint64_t addr,
                   uint64_t size)
{
    assert_true(i < o->count);
    assert_true(o->ops[i].handle == handle && o->ops[i].code == code && o->ops[i].addr == addr &&
                o->ops[i].size == size);
}

static void test_access_ops(void **state)
{
    struct ops o =
        read_text("# made by hand\n0 N 68956200 16\n\n0 S 68956200 4\n1 N 0 18446744073709551615\r\n"
                  "  1\tL  7 8 \n1 M 1 2\n0 F 68956200 0",
                  OPS_UNKNOWN);
    assert_int_equal(o.result, MT_END);
    assert_int_equal(o.kind, OPS_ACCESS);
    assert_int_equal(o.count, 6);
    expect(&o, 0, 0, OP_NEW, 68956200, 16);
    expect(&o, 1, 0, OP_STORE, 68956200, 4);
    expect(&o, 2, 1, OP_NEW, 0, UINT64_MAX);
    expect(&o, 3, 1, OP_LOAD, 7, 8);
    expect(&o, 4, 1, OP_MODIFY, 1, 2);
    expect(&o, 5, 0, OP_FREE, 68956200, 0);
    free(o.ops);
}

static void test_lock_ops(void **state)
{
    struct ops o = read_text("0 N 100 16\n0 L 0 0\n0 U 0 0\n0 O 0 0\n0 F 100 0\n", OPS_UNKNOWN);
    assert_int_equal(o.result, MT_END);
    assert_int_equal(o.kind, OPS_LOCK);
    expect(&o, 1, 0, OP_LOCK, 0, 0);
    expect(&o, 2, 0, OP_UNLOCK, 0, 0);
    expect(&o, 3, 0, OP_COMPACT, 0, 0);
    free(o.ops);
}

static void expect_kind(const char *text, enum ops_kind kind)
{
    struct ops o = read_text(text, OPS_UNKNOWN);
    assert_int_equal(o.kind, kind);
    free(o.ops);
}

static void test_kind_by_content(void **state)
{
    expect_kind("", OPS_ACCESS);
    expect_kind("0 N 1 1\n0 F 1 0\n", OPS_ACCESS);
    expect_kind("0 N 1 1\n0 L 0 0\n", OPS_LOCK);
    expect_kind("0 N 0 1\n0 L 0 1\n", OPS_ACCESS);
    expect_kind("0 N 1 1\n0 M 0 0\n0 L 0 0\n", OPS_ACCESS);
    expect_kind("# L\n0 N 1 1\n0 U 0 0\n", OPS_LOCK);
}

static void test_kind_by_name(void **state)
{
    static const struct {
        const char *name;
        enum ops_kind kind;
    } cases[] = {{"x-ops", OPS_ACCESS},
                 {"x-lockops", OPS_LOCK},
                 {"x-lockopsfull", OPS_LOCK},
                 {"x-lockops.zst", OPS_LOCK}};
    char folder[] = "/tmp/memtrace-test.XXXXXX", path[100];
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, cases[i].name);
        FILE *file = fopen(path, "w");
        fputs("0 N 1 1\n0 F 1 0\n", file);
        fclose(file);
        struct ops o = read_path(path, OPS_UNKNOWN);
        assert_int_equal(o.kind, cases[i].kind);
        assert_int_equal(o.count, 2);
        free(o.ops);
        unlink(path);
    }
    rmdir(folder);
}

static void expect_wrong(const char *text, enum ops_kind hint, uint64_t line, const char *what)
{
    struct ops o = read_text(text, hint);
    assert_int_equal(o.result, MT_ERROR);
    assert_int_equal(o.err.code, MT_E_CORRUPT);
    assert_int_equal(o.err.offset, line);
    assert_non_null(strstr(o.err.text, what));
    free(o.ops);
}

static void test_wrong(void **state)
{
    static const char *const lines[] = {"x",         "1",
                                        "1 N",       "1 N 2",
                                        "1 N 2 3 4", "1 NN 2 3",
                                        "-1 N 2 3",  "1 N 0x2 3",
                                        "1 N 2 3x",  "1N 2 3",
                                        "1 N 2 3 #", "\x01",
                                        ">>> N 1 2", "18446744073709551616 N 1 1"};
    char text[200];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(text, sizeof text, "0 N 1 1\n# c\n%s\n0 F 1 0\n", lines[i]);
        expect_wrong(text, OPS_ACCESS, 3, "expected `HANDLE OP ADDRESS SIZE`");
    }
    expect_wrong("0 N 1 1\n0 U 0 0\n", OPS_ACCESS, 2, "N F R L S M");
    expect_wrong("0 N 1 1\n0 S 0 0\n", OPS_LOCK, 2, "N F R L U O");
    expect_wrong("0 X 0 0", OPS_UNKNOWN, 1, "N F R L S M");
    expect_wrong(">>> N 1 2\n", OPS_ACCESS, 0, "is a memtrace; `steve ops`");
}

static void test_long_lines(void **state)
{
    size_t size = 2000000;
    char *text = malloc(size + 100);
    memset(text, 'x', size);
    text[0] = '#';
    strcpy(text + size, "\n0 N 1 1\n");
    struct ops o = read_text(text, OPS_UNKNOWN);
    assert_int_equal(o.result, MT_END);
    assert_int_equal(o.count, 1);
    free(o.ops);
    text[0] = '5';
    expect_wrong(text, OPS_ACCESS, 1, "too long");
    free(text);
}

static void test_missing_file(void **state)
{
    struct ops o = read_path("/nonexistent/file", OPS_UNKNOWN);
    assert_int_equal(o.err.code, MT_E_IO);
    o = read_path("/", OPS_UNKNOWN);
    assert_int_equal(o.err.code, MT_E_IO);
    assert_non_null(strstr(o.err.text, "folder"));
    o = read_path("/proc/self/mem", OPS_UNKNOWN); /* can be opened, but not be read at its beginning */
    assert_int_equal(o.err.code, MT_E_IO);
    assert_non_null(strstr(o.err.text, "cannot read"));
}

static struct bytes write_ops(const struct op *ops, size_t n, enum ops_form form)
{
    struct mt_error err;
    int fd = memory_file("", 0);
    struct ops_writer *w = ops_writer_open(fd, form, OPS_ACCESS, &err);
    ops_write(w, ops, n);
    assert_int_equal(ops_writer_finish(w, &err), MT_OK);
    struct bytes b = memory_bytes(fd);
    close(fd);
    return b;
}

/* A file may come through a pipe, byte by byte. */
static void test_bytes_one_by_one(void **state)
{
    static const struct op op = {0, 4096, 8, OP_NEW, 0, 0};
    struct bytes file = write_ops(&op, 1, OPS_BINARY);
    char path[40];
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (size_t i = 0; i < file.size; i++, usleep(1000))
            if (write(ends[1], file.data + i, 1) != 1)
                _exit(1);
        _exit(0);
    }
    close(ends[1]);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    struct ops got = read_path(path, OPS_UNKNOWN);
    assert_int_equal(got.result, MT_END);
    assert_int_equal(got.count, 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ends[0]);
    free(got.ops);
    free(file.data);
}

static void test_write_bytes(void **state)
{
    static const struct op ops[] = {{0, 0, 0, OP_NEW, 0, 0},         {9, 10, 99, OP_FREE, 0, 0},
                                    {100, 101, 1000, OP_LOAD, 0, 0}, {7, UINT64_MAX, 5, OP_STORE, 0, 0},
                                    {1, 2, 3, OP_MODIFY, 0, 0},      {1, 0, 0, OP_LOCK, 0, 0},
                                    {1, 0, 0, OP_UNLOCK, 0, 0},      {1, 0, 0, OP_COMPACT, 0, 0},
                                    {1, 64, 9, OP_RESIZE, 0, 0}};
    static const char expected[] =
        "0 N 0 0\n9 F 10 99\n100 L 101 1000\n7 S 18446744073709551615 5\n"
        "1 M 2 3\n1 L 0 0\n1 U 0 0\n1 O 0 0\n1 R 64 9\n";
    struct bytes b = write_ops(ops, sizeof ops / sizeof *ops, OPS_TEXT);
    assert_int_equal(b.size, strlen(expected));
    assert_memory_equal(b.data, expected, b.size);
    free(b.data);
}

static struct op random_op(uint64_t *seed)
{
    return (struct op){random_next(seed) >> random_below(seed, 64),
                       random_next(seed) >> random_below(seed, 64),
                       random_next(seed) >> random_below(seed, 64),
                       (uint32_t)random_below(seed, OP_MODIFY + 1),
                       0,
                       0};
}

/* Random operations are written and read, without and with zstd. */
static void test_roundtrip(void **state)
{
    enum { COUNT = 50000 };
    uint64_t seed = 5;
    struct op *ops = calloc(COUNT, sizeof *ops);
    for (size_t i = 0; i < COUNT; i++)
        ops[i] = random_op(&seed);
    struct bytes text = write_ops(ops, COUNT, OPS_TEXT);
    size_t room = ZSTD_compressBound(text.size);
    uint8_t *packed = malloc(room);
    size_t n = ZSTD_compress(packed, room, text.data, text.size, 1);
    struct ops plain = read_ops(text.data, text.size, OPS_ACCESS), zstd = read_ops(packed, n, OPS_ACCESS);
    struct ops cut = read_ops(packed, n - 10, OPS_ACCESS);
    assert_int_equal(plain.count, COUNT);
    assert_memory_equal(plain.ops, ops, COUNT * sizeof *ops);
    assert_int_equal(zstd.count, COUNT);
    assert_memory_equal(zstd.ops, ops, COUNT * sizeof *ops);
    assert_int_equal(cut.err.code, MT_E_TRUNCATED);
    free(plain.ops);
    free(zstd.ops);
    free(cut.ops);
    free(packed);
    free(text.data);
    free(ops);
}

static void test_write_error(void **state)
{
    struct mt_error err;
    FILE *full = fopen("/dev/full", "w");
    struct ops_writer *w = ops_writer_open(fileno(full), OPS_TEXT, OPS_ACCESS, &err);
    for (int i = 0; i < 100000; i++)
        ops_write(w, &(struct op){1, 2, 3, OP_NEW, 0, 0}, 1);
    assert_int_equal(ops_writer_finish(w, &err), MT_ERROR);
    assert_int_equal(err.code, MT_E_IO);
    fclose(full);
}

/* Handles that contradict each other, in both forms: the operations before are delivered, then an error with the
 * place. */
static void test_checked(void **state)
{
    const struct op ops[] = {{.handle = 3, .addr = 16, .size = 8, .code = OP_NEW},
                             {.handle = 4, .addr = 16, .size = 8, .code = OP_NEW},
                             {.handle = 3, .addr = 16, .code = OP_FREE},
                             {.handle = 3, .addr = 32, .size = 8, .code = OP_NEW},
                             {.handle = 4, .addr = 32, .size = 8, .code = OP_RESIZE},
                             {.handle = 5, .addr = 16, .size = 8, .code = OP_NEW},
                             {.handle = 3, .addr = 32, .size = 8, .code = OP_NEW}};
    enum { COUNT = sizeof ops / sizeof *ops };
    for (enum ops_form form = OPS_TEXT; form <= OPS_BINARY; form++) {
        struct mt_error err;
        int fd = memory_file("", 0), result;
        struct ops_writer *w = ops_writer_open(fd, form, OPS_ACCESS, &err);
        ops_write(w, ops, COUNT);
        assert_int_not_equal(ops_writer_finish(w, &err), MT_ERROR);
        struct ops_reader *r = ops_open(memory_path(fd), OPS_UNKNOWN, &err);
        assert_true(r && ops_reader_check(r));
        const struct op *batch;
        size_t n, count = 0;
        while ((result = ops_next(r, &batch, &n)) == MT_MORE) {
            assert_int_equal(ops_reader_line(r, 0), form == OPS_BINARY ? 0 : count + 1);
            count += n;
        }
        assert_int_equal(result, MT_ERROR);
        assert_int_equal(count, COUNT - 1);
        assert_int_equal(ops_reader_shared(r), 2); /* 4 over 3, and 4 over the new 3 */
        assert_string_equal(
            ops_reader_error(r)->text,
            form == OPS_BINARY
                ? "operation 6 (N): handle 3 is live already: a second N without an F"
                : "line 7: operation 6 (N): handle 3 is live already: a second N without an F");
        ops_close(r);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_access_ops),      cmocka_unit_test(test_lock_ops),
        cmocka_unit_test(test_kind_by_content), cmocka_unit_test(test_kind_by_name),
        cmocka_unit_test(test_wrong),           cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_missing_file),    cmocka_unit_test(test_bytes_one_by_one),
        cmocka_unit_test(test_write_bytes),     cmocka_unit_test(test_roundtrip),
        cmocka_unit_test(test_write_error),     cmocka_unit_test(test_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
