/* test_ops_survivors.c - the list of blocks that are never freed, at the end of binary ops files. It is read as
 * written, by readers of the list only, and does not disturb readers of the whole file. Wrong and damaged lists are
 * rejected.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support_ops.h"

#include "memtrace/ops/binary.h"

#include <stdlib.h>
#include <unistd.h>

/* n News, and a list, in a file. */
struct file {
    struct op *ops;
    struct bytes bytes;
};

static struct file make(size_t n, enum ops_form form, enum ops_kind kind, const uint64_t *list, size_t n_list)
{
    struct file f = {.ops = calloc(n + 1, sizeof *f.ops)};
    struct mt_error err;
    int fd = memory_file("", 0);
    struct ops_writer *w = ops_writer_open(fd, form, kind, &err);
    for (size_t i = 0; i < n; i++)
        f.ops[i] = (struct op){.handle = i, .addr = 4096 + 32 * i, .size = 32, .code = OP_NEW};
    ops_write(w, f.ops, n);
    ops_writer_survivors(w, list, n_list);
    assert_int_equal(ops_writer_finish(w, &err), MT_OK);
    f.bytes = memory_bytes(fd);
    close(fd);
    return f;
}

static void drop(struct file *f)
{
    free(f->ops);
    free(f->bytes.data);
}

/* The list of a file. *has_list is the result of ops_read_survivors. */
static uint64_t *list_of(const void *data, size_t size, size_t *n, bool *has_list)
{
    uint64_t *list;
    int fd = memory_file(data, size);
    *has_list = ops_read_survivors(memory_path(fd), &list, n);
    close(fd);
    return list;
}

static void expect_silent(const void *data, size_t size)
{
    size_t n;
    bool has_list;
    uint64_t *list = list_of(data, size, &n, &has_list);
    assert_false(has_list);
    assert_null(list);
    assert_int_equal(n, 0);
}

static void check_list(size_t ops, const uint64_t *list, size_t n_list)
{
    struct file f = make(ops, OPS_BINARY, OPS_ACCESS, list, n_list);
    size_t n;
    bool has_list;
    uint64_t *found = list_of(f.bytes.data, f.bytes.size, &n, &has_list);
    assert_true(has_list);
    assert_int_equal(n, n_list);
    if (n)
        assert_memory_equal(found, list, n * sizeof *list);
    free(found);
    struct result all = read_back(f.bytes.data, f.bytes.size, f.ops, OPS_UNKNOWN);
    assert_int_equal(all.last, MT_END);
    assert_int_equal(all.equal, ops);
    drop(&f);
}

static void test_the_list_that_was_written_is_read(void **state)
{
    enum { MANY = 2 * ID_LIST_MOST + 5 };
    static uint64_t all[MANY], some[MANY / 300];
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        all[i] = i;
    for (size_t i = 0; i < MANY / 300; i++)
        some[i] = 300 * i + i % 7;
    check_list(0, NULL, 0);
    check_list(10, NULL, 0);
    check_list(10, (uint64_t[]){0, 3, 9}, 3);
    check_list(OPS_PIECE, (uint64_t[]){OPS_PIECE - 1}, 1);
    check_list(MANY, some, MANY / 300);
    check_list(MANY, all, ID_LIST_MOST);
    check_list(MANY, all, ID_LIST_MOST + 1);
    check_list(MANY, all, MANY);
}

/* Files of other kinds and forms, and those whose writer got no list, have none. */
static void test_others_are_silent(void **state)
{
    static const uint64_t list[] = {1};
    (void)state;
    for (enum ops_form form = OPS_TEXT; form <= OPS_BINARY; form++) {
        struct file f = make(3, form, form == OPS_BINARY ? OPS_LOCK : OPS_ACCESS, list, 1);
        expect_silent(f.bytes.data, f.bytes.size);
        assert_int_equal(read_back(f.bytes.data, f.bytes.size, f.ops, OPS_UNKNOWN).last, MT_END);
        drop(&f);
    }
    static const struct op op = {.code = OP_NEW};
    struct bytes without_list = packed(&op, 1, OPS_BINARY, OPS_ACCESS);
    expect_silent(without_list.data, without_list.size);
    free(without_list.data);
    expect_silent("", 0);
    assert_false(ops_read_survivors("/nonexistent", &(uint64_t *){NULL}, &(size_t){0}));
}

/* Of several pieces, the last has the list; together they are the file that one writer makes. */
static void test_pieces(void **state)
{
    static const uint64_t list[] = {2, OPS_PIECE};
    struct file f = make(OPS_PIECE + 1, OPS_BINARY, OPS_ACCESS, list, 2);
    struct bytes joined = {0};
    (void)state;
    for (int last = 0; last <= 1; last++) {
        struct mt_error err;
        int fd = memory_file("", 0);
        struct ops_piece piece = {.before = last ? OPS_PIECE : 0, .first = !last, .last = last};
        struct ops_writer *w = ops_writer_piece(fd, OPS_BINARY, OPS_ACCESS, piece, &err);
        ops_write(w, f.ops + piece.before, last ? 1 : OPS_PIECE);
        ops_writer_survivors(w, list, 2);
        assert_int_equal(ops_writer_finish(w, &err), MT_OK);
        struct bytes part = memory_bytes(fd);
        append_bytes(&joined, part.data, part.size);
        free(part.data);
        close(fd);
    }
    assert_int_equal(joined.size, f.bytes.size);
    assert_memory_equal(joined.data, f.bytes.data, joined.size);
    free(joined.data);
    drop(&f);
}

/* If a file is cut off anywhere, or any byte of the list is changed, it has no list, and a reader of it gets an
 * error. */
static void test_damage(void **state)
{
    struct file f = make(10, OPS_BINARY, OPS_ACCESS, (uint64_t[]){4, 5}, 2);
    struct file before = make(10, OPS_BINARY, OPS_LOCK, NULL, 0);
    size_t list_at = before.bytes.size - OPS_HEADER_SIZE;
    (void)state;
    for (size_t size = 0; size < f.bytes.size; size++)
        expect_silent(f.bytes.data, size);
    for (size_t i = list_at; i < f.bytes.size; i++) {
        f.bytes.data[i] ^= 0x21;
        struct result out = read_back(f.bytes.data, f.bytes.size, f.ops, OPS_UNKNOWN);
        assert_int_equal(out.last, MT_ERROR);
        assert_int_equal(out.equal, 10);
        if (i < f.bytes.size - OPS_HEADER_SIZE)
            expect_silent(f.bytes.data, f.bytes.size);
        f.bytes.data[i] ^= 0x21;
    }
    drop(&f);
    drop(&before);
}

/* A block of a file that holds two operations, and a payload of its own. */
static void append_block(struct bytes *to, uint32_t count, uint64_t total, const void *payload, size_t size)
{
    uint8_t header[OPS_HEADER_SIZE] = {0}, stored[256];
    size_t n = size ? ZSTD_compress(stored, sizeof stored, payload, size, 1) : 0;
    store_u32(header, count);
    store_u32(header + 4, (uint32_t)size);
    store_u32(header + 8, (uint32_t)n);
    store_u64(header + 16, total);
    store_u64(header + 24, ops_block_hash(header, stored, n));
    append_bytes(to, header, sizeof header);
    append_bytes(to, stored, n);
}

struct payload {
    const char *bytes;
    size_t size;
};

/* A file of two operations, lists (up to one without bytes), perhaps two operations more, and the end. */
static struct bytes with_lists(const struct payload *lists, bool more)
{
    static const char two[] = "\x70\x70"; /* N of the expected handle and size, at address 0, twice */
    struct bytes file = {0};
    append_bytes(&file, OPS_MAGIC "\1", OPS_MAGIC_SIZE + 1);
    append_block(&file, 2, 2, two, 2);
    for (; lists->bytes; lists++)
        append_block(&file, 0, 2, lists->bytes, lists->size);
    if (more)
        append_block(&file, 2, 4, two, 2);
    append_block(&file, 0, more ? 4 : 2, "", 0);
    return file;
}

static struct result reading(struct bytes file)
{
    static const struct op ops[4];
    return read_back(file.data, file.size, ops, OPS_UNKNOWN);
}

static void test_wrong_lists(void **state)
{
    static const struct {
        struct payload lists[3];
        bool more;
        const char *text; /* NULL: it is right */
    } cases[] = {
        {{{"\0\0\0", 3}}, false, NULL},
        {{{"\1\0", 2}, {"\0\0", 2}}, false, NULL},
        {{{"\0\2", 2}}, false, "list of blocks"},     /* beyond the operations */
        {{{"\0\0\0\0", 4}}, false, "list of blocks"}, /* too many */
        {{{"\2\0", 2}}, false, "list of blocks"},     /* no such byte */
        {{{"\0\x80", 2}}, false, "list of blocks"},   /* a number that is cut short */
        {{{"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11}}, false, "list of blocks"},
        {{{"\0\0", 2}, {"\0\0", 2}}, false, "list of blocks"}, /* another where there is none */
        {{{"\1\0", 2}}, false, "is cut short"},
        {{{"\0\0", 2}}, true, "operations follow"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes file = with_lists(cases[i].lists, cases[i].more);
        struct result out = reading(file);
        assert_int_equal(out.last, cases[i].text ? MT_ERROR : MT_END);
        if (cases[i].text && !strstr(out.err.text, cases[i].text))
            fail_msg("case %zu: %s", i, out.err.text);
        if (cases[i].text && !cases[i].more)
            expect_silent(file.data, file.size);
        free(file.data);
    }
}

/* Files of locks have no lists, and those of other versions are not understood. */
static void test_only_where_they_belong(void **state)
{
    static const struct payload lists[] = {{"\0\0", 2}, {NULL, 0}};
    struct bytes file = with_lists(lists, false);
    (void)state;
    assert_int_equal(reading(file).last, MT_END);
    file.data[OPS_MAGIC_SIZE] = OPS_LOCK;
    assert_non_null(strstr(reading(file).err.text, "impossible sizes"));
    expect_silent(file.data, file.size);
    file.data[OPS_MAGIC_SIZE] = OPS_ACCESS;
    file.data[OPS_MAGIC_SIZE - 1] = OPS_VERSION_COPIED + 1;
    assert_int_equal(reading(file).err.code, MT_E_VERSION);
    expect_silent(file.data, file.size);
    free(file.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_list_that_was_written_is_read),
        cmocka_unit_test(test_others_are_silent),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_wrong_lists),
        cmocka_unit_test(test_only_where_they_belong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
