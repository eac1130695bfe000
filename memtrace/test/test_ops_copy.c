/* test_ops_copy.c - ops files into which the accesses of a trace are copied. They contain the operations of the
 * trace, whatever else is omitted, and the list of blocks that are never freed. Damage to the trace or to the file
 * ends them at that place and is reported.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/everything.h"
#include "memtrace/test/support_ops.h"

#include "memtrace/format/records.h"
#include "memtrace/ops/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- operations ------------------------------------------------------------------------------- */

struct list {
    struct op *ops;
    size_t n, room;
};

static void keep(struct list *l, const struct op *ops, size_t n)
{
    while (l->n + n > l->room)
        l->ops = realloc(l->ops, (l->room = 2 * l->room + 1024) * sizeof *l->ops);
    assert_non_null(l->ops);
    memcpy(l->ops + l->n, ops, n * sizeof *ops);
    l->n += n;
}

/* The operations into which a trace is translated. */
static struct list operations_of(struct bytes trace, bool resizes)
{
    struct list l = {0};
    const struct op *ops;
    size_t n;
    int fd = memory_file(trace.data, trace.size), result;
    struct mt_reader *r = mt_open(memory_path(fd), 0, NULL);
    struct op_source *s = op_source_new(r, NULL, (struct op_source_options){.resizes = resizes});
    assert_non_null(r);
    assert_non_null(s);
    while ((result = op_source_next(s, &ops, &n)) == MT_MORE)
        keep(&l, ops, n);
    assert_int_equal(result, MT_END);
    op_source_free(s);
    mt_close(r);
    close(fd);
    return l;
}

/* Copy a trace to a file. *result is how reading the trace ended. Returns no bytes if it cannot be opened or
 * copied. */
static struct bytes copied(struct bytes trace, bool resizes, int *result, uint64_t *operations)
{
    struct bytes b = {0};
    struct mt_error err;
    int fd = memory_file(trace.data, trace.size), out = memory_file("", 0);
    struct mt_reader *r = mt_open(memory_path(fd), 0, &err);
    *result = MT_ERROR;
    if (r && ops_can_copy(r)) {
        struct ops_copier *c = ops_copier_new(r, out, resizes, &err);
        assert_non_null(c);
        while ((*result = ops_copier_next(c)) == MT_MORE)
            ;
        *operations = ops_copier_operations(c);
        assert_int_equal(ops_copier_finish(c, &err), MT_OK);
        b = memory_bytes(out);
    }
    mt_close(r);
    close(fd);
    close(out);
    return b;
}

/* -- whole traces ------------------------------------------------------------------------------- */

static struct list heap_operations(const struct list *all)
{
    struct list l = {0};
    for (size_t i = 0; i < all->n; i++)
        if (all->ops[i].code < OP_LOAD || all->ops[i].code > OP_MODIFY) {
            keep(&l, &all->ops[i], 1);
            l.ops[l.n - 1].addr = 0;
        }
    return l;
}

/* Compare without addresses, which a reader that skips accesses need not deliver. */
static void check_passing(struct bytes file, const struct list *all)
{
    struct list others = heap_operations(all);
    const struct op *ops;
    size_t n, at = 0;
    int fd = memory_file(file.data, file.size);
    struct ops_reader *r = ops_open(memory_path(fd), OPS_ACCESS, NULL);
    assert_non_null(r);
    ops_pass_accesses(r);
    while (ops_next(r, &ops, &n) == MT_MORE)
        for (size_t i = 0; i < n; i++) {
            if (ops[i].code >= OP_LOAD && ops[i].code <= OP_MODIFY)
                continue; /* an access by the kernel */
            assert_true(at < others.n && ops[i].handle == others.ops[at].handle &&
                        ops[i].code == others.ops[at].code && ops[i].size == others.ops[at].size);
            at++;
        }
    assert_int_equal(at, others.n);
    assert_int_equal(ops_reader_error(r)->code, MT_E_NONE);
    ops_close(r);
    close(fd);
    free(others.ops);
}

/* By their ordinals, which are handles here. */
static void check_never_freed(struct bytes file, const struct list *all)
{
    uint64_t *list;
    size_t n, survivors = 0, news = 0;
    int fd = memory_file(file.data, file.size);
    bool *freed = calloc(all->n + 1, sizeof *freed);
    assert_true(ops_read_survivors(memory_path(fd), &list, &n));
    for (size_t i = 0; i < all->n; i++) {
        news += all->ops[i].code == OP_NEW;
        if (all->ops[i].code == OP_FREE)
            freed[all->ops[i].handle] = true;
    }
    for (size_t handle = 0; handle < news; handle++)
        if (!freed[handle]) {
            assert_true(survivors < n);
            assert_int_equal(list[survivors++], handle);
        }
    assert_int_equal(survivors, n);
    free(freed);
    free(list);
    close(fd);
}

static void check_copy(struct bytes trace, bool resizes)
{
    int result;
    uint64_t operations;
    struct list expected = operations_of(trace, resizes);
    struct bytes file = copied(trace, resizes, &result, &operations);
    assert_int_equal(result, MT_END);
    assert_int_equal(operations, expected.n);
    struct result back = read_back(file.data, file.size, expected.ops, OPS_UNKNOWN);
    assert_int_equal(back.last, MT_END);
    assert_int_equal(back.count, expected.n);
    assert_int_equal(back.equal, expected.n);
    assert_int_equal(read_back(file.data, file.size, expected.ops, OPS_LOCK).last, MT_ERROR);
    check_passing(file, &expected);
    check_never_freed(file, &expected);
    free(expected.ops);
    free(file.data);
}

static void check_and_free(struct bytes trace)
{
    check_copy(trace, false);
    check_copy(trace, true);
    free(trace.data);
}

static void test_everything(void **state)
{
    (void)state;
    check_and_free(trace_of_everything());
    check_and_free(trace_of_a_fork());
}

/* A trace of accesses with a record that is no operation after each, so that runs are joined, also long ones. A
 * chunk without any operation is omitted. */
static void test_runs_are_joined(void **state)
{
    struct mt_error err;
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, &(struct mt_writer_options){.chunk_events = 700}, &err);
    (void)state;
    assert_non_null(w);
    uint32_t name = mt_writer_string(w, "a mark", 6);
    uint32_t site = mt_writer_site(w, &(struct mt_site){.ip = 64, .size = 8, .kind = MT_STORE});
    mt_writer_block_new(w, 4096, 1 << 20, 0, MT_HOW_MALLOC, 0);
    for (unsigned i = 0, run = 1; i < 60000; i += run, run = run * 3 % 211) {
        for (unsigned j = 0; j < run; j++)
            mt_writer_accesses(w, &site, &(uint64_t){4096 + 8 * (i + j)}, 1);
        mt_writer_mark(w, name);
    }
    for (unsigned i = 0; i < 3000; i++)
        mt_writer_mark(w, name);
    mt_writer_accesses(w, &site, &(uint64_t){4096}, 1);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, &err), MT_OK);
    struct bytes trace = memory_bytes(fd);
    close(fd);
    check_and_free(trace);
}

/* Events that the caller reads and gives, as many at a time as there are, have the operations of their trace. */
static void test_given_events(void **state)
{
    struct bytes trace = simple_trace(1, (struct mt_writer_options){.chunk_events = 5000});
    struct reading read = read_bytes(trace.data, trace.size, 0);
    struct list expected = operations_of(trace, false), got = {0};
    struct op_source *s = op_source_new(NULL, NULL, (struct op_source_options){0});
    const struct op *ops;
    size_t n;
    (void)state;
    assert_true(read.count > MT_STEP_MOST + 6);
    for (size_t i = 0, piece = 1; i < read.count; i += piece, piece = MT_STEP_MOST + 5) {
        piece = piece < read.count - i ? piece : read.count - i;
        op_source_give(s, read.events + i, piece);
        while (op_source_next(s, &ops, &n) == MT_MORE) {
            assert_true(got.n + n <= expected.n);
            keep(&got, ops, n);
        }
    }
    assert_int_equal(got.n, expected.n);
    for (size_t i = 0; i < got.n; i++)
        assert_true(got.ops[i].code == expected.ops[i].code && got.ops[i].handle == expected.ops[i].handle &&
                    got.ops[i].size == expected.ops[i].size);
    op_source_free(s);
    free(got.ops);
    free(expected.ops);
    reading_free(&read);
    free(trace.data);
}

/* -- damage ------------------------------------------------------------------------------------- */

/* The operations read are those of the whole file up to some place, and an error reports that the rest is missing. */
static void expect_part(const uint8_t *data, size_t size, const struct list *whole)
{
    struct result got = read_back(data, size, whole->ops, OPS_ACCESS);
    assert_int_equal(got.last, MT_ERROR);
    assert_true(got.err.text[0] && got.equal == got.count && got.count <= whole->n);
    int fd = memory_file(data, size);
    uint64_t *list;
    size_t n;
    if (!ops_read_survivors(memory_path(fd), &list, &n)) /* the list may be complete nevertheless */
        assert_true(list == NULL && n == 0);
    free(list);
    close(fd);
}

static void test_damaged_file(void **state)
{
    int result;
    uint64_t operations;
    struct bytes trace = trace_of_everything(), file = copied(trace, false, &result, &operations);
    struct list whole = operations_of(trace, false);
    (void)state;
    for (size_t size = 0; size < file.size; size++)
        if (size) /* an empty file is a text file without operations */
            expect_part(file.data, size, &whole);
    for (size_t i = 0; i < file.size; i++)
        for (unsigned change = 1; change < 256; change *= 3) {
            file.data[i] ^= (uint8_t)change;
            expect_part(file.data, file.size, &whole);
            file.data[i] ^= (uint8_t)change;
        }
    append_bytes(&file, "", 1);
    expect_part(file.data, file.size, &whole);
    free(whole.ops);
    free(trace.data);
    free(file.data);
}

/* The file is complete and contains what precedes the damage. */
static void check_part_of_trace(struct bytes trace, const struct list *whole)
{
    int result;
    uint64_t operations = 0;
    struct bytes file = copied(trace, false, &result, &operations);
    assert_int_equal(result, MT_ERROR);
    if (!file.data)
        return;
    struct result got = read_back(file.data, file.size, whole->ops, OPS_ACCESS);
    assert_int_equal(got.last, MT_END);
    assert_true(got.equal == got.count && got.count == operations && got.count <= whole->n);
    free(file.data);
}

static void test_damaged_trace(void **state)
{
    struct bytes trace = trace_of_everything();
    struct list whole = operations_of(trace, false);
    const size_t index_and_trailer = 24 + CHUNK_HEADER_SIZE; /* at least: the file is complete without them */
    (void)state;
    for (size_t size = 0; size < trace.size - index_and_trailer; size += 1 + size / 900) {
        struct bytes part = {trace.data, size};
        int result;
        uint64_t operations;
        struct bytes file = copied(part, false, &result, &operations);
        assert_true(result == MT_ERROR || operations == whole.n);
        free(file.data);
        if (result == MT_ERROR)
            check_part_of_trace(part, &whole);
    }
    for (size_t i = 0; i < trace.size; i++) {
        trace.data[i] ^= 0x21;
        check_part_of_trace(trace, &whole);
        trace.data[i] ^= 0x21;
    }
    free(whole.ops);
    free(trace.data);
}

/* A new block that is resized, then a chunk with a free of no block: its checksum is right, its records are not. */
static struct bytes wrong_in_the_second_chunk(void)
{
    struct bytes file = {0};
    append_file_header(&file);
    for (uint32_t i = 0; i < 2; i++) {
        struct bytes streams[EVENT_STREAMS] = {{0}};
        struct buffer rare = {0};
        put_new(&rare, &(struct rec_new){.slot = i, .addr = 4096, .size = 16});
        if (i == 0)
            put_resize(&rare, &(struct rec_resize){.slot = 0, .moved = 4096, .size = 32});
        else
            put_free(&rare, &(struct rec_free){.slot = 7});
        put_stop(&rare, &(struct rec_stop){});
        streams[STREAM_TOKENS] = (struct bytes){(uint8_t[]){0, 0, 0}, 3};
        streams[STREAM_RARE] = (struct bytes){rare.data, buffer_size(&rare)};
        append_chunk(&file,
                     &(struct chunk_header){
                         .type = CHUNK_EVENTS, .events = 2, .first_event = 2 * i, .first_handle = i},
                     streams);
        buffer_free(&rare);
    }
    return file;
}

/* Nothing of a wrong chunk is counted or copied. */
static void test_wrong_chunk(void **state)
{
    int result;
    uint64_t operations;
    struct bytes trace = wrong_in_the_second_chunk(), file = copied(trace, false, &result, &operations);
    const struct op unread[3] = {{0}};
    (void)state;
    assert_int_equal(result, MT_ERROR);
    assert_int_equal(operations, 3);
    struct result got = read_back(file.data, file.size, unread, OPS_UNKNOWN);
    assert_int_equal(got.last, MT_END);
    assert_int_equal(got.count, 3);
    free(file.data);
    free(trace.data);
}

/* Nothing is copied from a file that is not a binary trace, or that is salvaged. */
static void test_what_cannot_be_copied(void **state)
{
    static const char text[] = ">>> N 4096 64\n";
    struct bytes trace = trace_of_everything();
    struct mt_error err;
    int fd = memory_file(text, sizeof text - 1);
    struct mt_reader *r = mt_open(memory_path(fd), 0, &err);
    (void)state;
    assert_false(ops_can_copy(r));
    mt_close(r);
    close(fd);
    fd = memory_file(trace.data, trace.size);
    r = mt_open(memory_path(fd), MT_OPEN_SALVAGE, &err);
    assert_false(ops_can_copy(r));
    mt_close(r);
    close(fd);
    free(trace.data);
}

/* An error of writing is reported, and reading stops. */
static void test_full_disk(void **state)
{
    struct bytes trace = trace_of_everything();
    struct mt_error err;
    int fd = memory_file(trace.data, trace.size);
    struct mt_reader *r = mt_open(memory_path(fd), 0, &err);
    FILE *full = fopen("/dev/full", "w");
    (void)state;
    assert_non_null(full);
    struct ops_copier *c = ops_copier_new(r, fileno(full), false, &err);
    assert_non_null(c);
    assert_int_equal(ops_copier_next(c), MT_END);
    assert_int_equal(ops_copier_finish(c, &err), MT_ERROR);
    assert_int_equal(err.code, MT_E_IO);
    mt_close(r);
    fclose(full);
    close(fd);
    free(trace.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),   cmocka_unit_test(test_runs_are_joined),
        cmocka_unit_test(test_given_events),
        cmocka_unit_test(test_damaged_file), cmocka_unit_test(test_damaged_trace),
        cmocka_unit_test(test_wrong_chunk),  cmocka_unit_test(test_what_cannot_be_copied),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
