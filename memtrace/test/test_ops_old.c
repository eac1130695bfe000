/* test_ops_old.c - binary ops files that earlier programs wrote are read whole.
 *
 * old/version3.ops and old/version3.lockops are of one short run of luajit, two blocks and one, each the last
 * that programs of version 3 wrote; old/version4.* are of another, a block each. What they must hold is the
 * text form that those programs wrote of the same trace, known by its hash. Files of versions 1 and 2 are
 * made in test_ops_binary.c: they have no shapes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "support_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

struct old {
    const char *name;
    enum ops_kind kind;
    size_t text_size;
    uint64_t text_hash; /* XXH3-64 */
    uint64_t counts[OP_CODES];
};

static const struct old s_ops[] = {{"version3.ops",
                                    OPS_ACCESS,
                                    1193967,
                                    0x2e6bf6078afe5fc5,
                                    {[OP_NEW] = 686,
                                     [OP_FREE] = 685,
                                     [OP_RESIZE] = 22,
                                     [OP_LOAD] = 47574,
                                     [OP_STORE] = 23583,
                                     [OP_MODIFY] = 1878}},
                                   {"version4.ops",
                                    OPS_ACCESS,
                                    2702451,
                                    0x7b2c0d921d3ccbf2,
                                    {[OP_NEW] = 1133,
                                     [OP_FREE] = 1133,
                                     [OP_RESIZE] = 21,
                                     [OP_LOAD] = 105069,
                                     [OP_STORE] = 55684,
                                     [OP_MODIFY] = 3718}}};
static const struct old s_lockops[] = {
    {"version3.lockops",
     OPS_LOCK,
     259400,
     0xa12d1970d8f6eaf7,
     {[OP_NEW] = 708, [OP_FREE] = 707, [OP_LOCK] = 12944, [OP_UNLOCK] = 12298}},
    {"version4.lockops",
     OPS_LOCK,
     430804,
     0xa4d6e422a6967a23,
     {[OP_NEW] = 1154, [OP_FREE] = 1154, [OP_LOCK] = 20385, [OP_UNLOCK] = 19288}}};
enum { OLD = sizeof s_ops / sizeof *s_ops };

static const char *path_of(const struct old *old)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/memtrace/test/old/%s", MEMTRACE_SOURCE, old->name);
    return path;
}

static struct ops_reader *open_old(const struct old *old)
{
    struct mt_error err = {0};
    const char *path = path_of(old);
    struct ops_reader *r = ops_open(path, OPS_UNKNOWN, &err);
    if (!r)
        fail_msg("%s: %s", path, err.text);
    assert_true(ops_reader_is_binary(r));
    assert_int_equal(ops_reader_kind(r), old->kind);
    return r;
}

static void count(const struct op *ops, size_t n, uint64_t counts[OP_CODES])
{
    for (size_t i = 0; i < n; i++)
        counts[ops[i].code]++;
}

/* The operations as text. */
static struct bytes text_of(struct ops_reader *r, uint64_t counts[OP_CODES])
{
    struct mt_error err;
    const struct op *ops;
    size_t n;
    int fd = memory_file("", 0), last;
    struct ops_writer *w = ops_writer_new(fd, &err);
    while ((last = ops_next(r, &ops, &n)) == MT_MORE) {
        ops_write(w, ops, n);
        count(ops, n, counts);
    }
    assert_int_equal(last, MT_END);
    assert_int_equal(ops_writer_finish(w, &err), MT_OK);
    struct bytes text = memory_bytes(fd);
    close(fd);
    return text;
}

static void expect_text(const struct old *old)
{
    uint64_t counts[OP_CODES] = {0};
    struct ops_reader *r = open_old(old);
    struct bytes text = text_of(r, counts);
    assert_memory_equal(counts, old->counts, sizeof counts);
    assert_int_equal(text.size, old->text_size);
    assert_true(XXH3_64bits(text.data, text.size) == old->text_hash);
    free(text.data);
    ops_close(r);
}

/* Who passes over accesses is told of all others, of the same handles. */
static void expect_passing(const struct old *old)
{
    struct ops_reader *all = open_old(old), *others = open_old(old);
    const struct op *ops, *passed = NULL;
    size_t n, left = 0;
    ops_pass_accesses(others);
    while (ops_next(all, &ops, &n) == MT_MORE)
        for (const struct op *op = ops; op < ops + n; op++) {
            if (op->code >= OP_LOAD && op->code <= OP_MODIFY)
                continue;
            if (left == 0)
                assert_int_equal(ops_next(others, &passed, &left), MT_MORE);
            assert_int_equal(passed->handle, op->handle);
            assert_int_equal(passed->code, op->code);
            assert_int_equal(passed->size, op->size);
            passed++;
            left--;
        }
    assert_int_equal(left, 0);
    assert_int_equal(ops_next(others, &passed, &left), MT_END);
    ops_close(all);
    ops_close(others);
}

static void test_reading(void **state)
{
    (void)state;
    for (size_t i = 0; i < OLD; i++) {
        expect_text(&s_ops[i]);
        expect_text(&s_lockops[i]);
    }
}

static void test_passing(void **state)
{
    (void)state;
    for (size_t i = 0; i < OLD; i++) {
        expect_passing(&s_ops[i]);
        expect_passing(&s_lockops[i]);
    }
}

/* They do not say which blocks are never freed. */
static void test_no_list(void **state)
{
    uint64_t *list;
    size_t n;
    (void)state;
    for (size_t i = 0; i < OLD; i++)
        assert_false(ops_read_unfreed(path_of(&s_ops[i]), &list, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reading), cmocka_unit_test(test_passing),
                                       cmocka_unit_test(test_no_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
