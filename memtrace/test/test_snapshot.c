/* test_snapshot.c - snapshots of Lua objects and samples are read as written; invalid ones are rejected.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/base/buffer.h"
#include "memtrace/format/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct mt_writer *writer(int fd)
{
    struct mt_writer *w = mt_writer_new(fd, NULL, NULL);
    assert_non_null(w);
    assert_int_equal(mt_writer_heap(w, &(struct mt_heap){.id = 0xabc, .kind = MT_HEAP_LUA}), 1);
    return w;
}

static struct mt_reader *reopen(int fd, struct mt_writer *w, int result)
{
    const struct mt_event *events;
    size_t n;
    int got;
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct mt_reader *r = mt_open(memory_path(fd), MT_OPEN_SNAPSHOTS, NULL);
    assert_non_null(r);
    while ((got = mt_next(r, &events, &n)) == MT_MORE)
        continue;
    assert_int_equal(got, result);
    return r;
}

static void test_roundtrip(void **state)
{
    int fd = memory_file("", 0);
    (void)state;
    struct mt_writer *w = writer(fd);
    uint32_t name = mt_writer_string(w, "here", 4);
    mt_writer_time(w, 77);
    mt_writer_mark(w, name);
    mt_writer_snapshot_begin(w,
                             &(struct mt_snapshot){.name = name, .heap = 1, .total = 500, .internal = 100});
    uint32_t type = mt_writer_string(w, "int[10]", 7); /* defined meanwhile */
    assert_int_equal(
        mt_writer_object(w, &(struct mt_object){.addr = 64, .size = 300, .type = MT_TYPE_TAB, .root = 1}), 0);
    mt_writer_link(w, &(struct mt_link){.from = 0, .to = 1, .kind = MT_LINK_ARRAY, .name = 4000000000U});
    assert_int_equal(mt_writer_object(w, &(struct mt_object){16, 100, type, MT_TYPE_CDATA, 1, 0}), 1);
    mt_writer_link(w, &(struct mt_link){.from = 1, .to = 0, .kind = MT_LINK_VALUE, .name = name, .weak = 1});
    mt_writer_snapshot_end(w);
    mt_writer_mark(w, name);
    struct mt_reader *r = reopen(fd, w, MT_END);
    assert_int_equal(mt_count_snapshots(r), 1);
    const struct mt_snapshot *s = mt_snapshot(r, 0);
    assert_int_equal(s->total, 500);
    assert_int_equal(s->internal, 100);
    assert_int_equal(s->time, 77);
    assert_int_equal(s->event, 1);
    assert_int_equal(s->heap, 1);
    assert_string_equal(mt_string(r, s->name), "here");
    assert_int_equal(s->n_objects, 2);
    assert_int_equal(s->n_links, 2);
    const struct mt_object *o = s->objects;
    assert_true(o[0].addr == 64 && o[0].size == 300 && o[0].type == MT_TYPE_TAB && o[0].root && !o[0].dead);
    assert_true(o[1].addr == 16 && o[1].type == MT_TYPE_CDATA && o[1].dead && !o[1].root);
    assert_string_equal(mt_string(r, o[1].name), "int[10]");
    const struct mt_link *l = s->links;
    assert_true(l[0].from == 0 && l[0].to == 1 && l[0].kind == MT_LINK_ARRAY && l[0].name == 4000000000U);
    assert_true(l[1].from == 1 && l[1].to == 0 && l[1].kind == MT_LINK_VALUE && l[1].weak);
    assert_null(mt_snapshot(r, 1));
    mt_forget_snapshot(r, 1);
    mt_forget_snapshot(r, 0);
    mt_forget_snapshot(r, 0);
    assert_true(mt_count_snapshots(r) == 1 && s->n_objects == 0 && !s->objects && s->total == 500);
    mt_close(r);
    close(fd);
}

/* More objects than one chunk can have, in two snapshots. */
static void test_shards(void **state)
{
    enum { MANY = 2000000 };
    int fd = memory_file("", 0);
    (void)state;
    struct mt_writer *w = writer(fd);
    for (int turn = 0; turn < 2; turn++) {
        mt_writer_snapshot_begin(w, &(struct mt_snapshot){.heap = 1});
        for (uint32_t i = 0; i < MANY; i++) {
            mt_writer_object(w, &(struct mt_object){.addr = 1000003ULL * i, .size = i, .type = MT_TYPE_STR});
            mt_writer_link(w, &(struct mt_link){.from = i, .to = MANY - 1 - i, .kind = MT_LINK_KEY});
        }
        mt_writer_snapshot_end(w);
    }
    struct mt_reader *r = reopen(fd, w, MT_END);
    assert_int_equal(mt_count_snapshots(r), 2);
    const struct mt_snapshot *s = mt_snapshot(r, 1);
    assert_int_equal(s->n_objects, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        assert_true(s->objects[i].addr == 1000003ULL * i && s->links[i].to == MANY - 1 - i);
    mt_close(r);
    close(fd);
}

/* A snapshot that was begun but not ended does not count and does no harm. */
static void test_cut_short(void **state)
{
    int fd = memory_file("", 0);
    (void)state;
    struct mt_writer *w = writer(fd);
    mt_writer_snapshot_begin(w, &(struct mt_snapshot){.heap = 1});
    for (uint32_t i = 0; i < 3000000; i++)
        mt_writer_object(w, &(struct mt_object){.addr = 1000003ULL * i, .size = i, .type = MT_TYPE_STR});
    mt_writer_block_new(w, 0x1000, 10, 0, MT_HOW_MALLOC, 0);
    struct mt_reader *r = reopen(fd, w, MT_END);
    assert_int_equal(mt_count_snapshots(r), 0);
    mt_close(r);
    close(fd);
}

/* One that is given up does not count either, whatever follows. */
static void test_dropped(void **state)
{
    int fd = memory_file("", 0);
    (void)state;
    struct mt_writer *w = writer(fd);
    mt_writer_snapshot_drop(w);
    for (uint64_t total = 1; total < 3; total++) {
        mt_writer_snapshot_begin(w, &(struct mt_snapshot){.heap = 1, .total = total});
        mt_writer_object(w, &(struct mt_object){.addr = 64, .size = 8, .type = MT_TYPE_STR});
        if (total == 1)
            mt_writer_snapshot_drop(w);
    }
    mt_writer_snapshot_end(w);
    struct mt_reader *r = reopen(fd, w, MT_END);
    assert_int_equal(mt_count_snapshots(r), 1);
    assert_true(mt_snapshot(r, 0)->total == 2 && mt_snapshot(r, 0)->n_objects == 1);
    mt_close(r);
    close(fd);
}

static void test_sample(void **state)
{
    int fd = memory_file("", 0);
    (void)state;
    struct mt_writer *w = writer(fd);
    uint32_t frame = mt_writer_frame(w, &(struct mt_frame){.ip = 1});
    mt_writer_time(w, 1000);
    mt_writer_sample(w, 1, MT_VM_GC, mt_writer_stack(w, 0, frame), 250);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    struct reading got = read_bytes(file.data, file.size, 0);
    assert_int_equal(got.result, MT_END);
    assert_int_equal(got.count, 1);
    assert_true(got.events[0].kind == MT_SAMPLE && got.events[0].how == MT_VM_GC && got.events[0].heap == 1);
    assert_true(got.events[0].ref == 1 && got.events[0].size == 250 && got.events[0].time == 1000);
    assert_int_equal(got.stats.totals.events[MT_SAMPLE], 1);
    reading_free(&got);
    free(file.data);
    close(fd);
}

/* -- crafted files -- */

static void put_good(struct buffer *b)
{
    put_snapshot(b, &(struct rec_snapshot){.total = 9});
    put_object(b, &(struct rec_object){.addr = 16, .size = 8, .type = MT_TYPE_STR});
    put_link(b, &(struct rec_link){0});
    put_snapend(b, &(struct rec_snapend){1, 1});
}

static void put_bad(struct buffer *b, int what)
{
    const struct rec_object object = {.addr = 16, .size = 8, .type = MT_TYPE_STR};
    struct rec_object bad_object = object;
    struct rec_link link = {0};
    struct rec_snapend end = {1, 1};
    put_snapshot(b, &(struct rec_snapshot){.name = what == 0,
                                           .heap = what == 1,
                                           .objects = what == 2 || what == 18,
                                           .links = what == 18});
    bad_object.type = what == 3 ? MT_TYPES : what == 4 ? MT_TYPE_STACK : what == 5 ? 0 : MT_TYPE_STR;
    bad_object.flags = what == 6 ? 4 : 0;
    bad_object.name = what == 7;
    put_object(b, &bad_object);
    link.kind = what == 8 ? MT_LINK_KINDS : what == 9 ? MT_LINK_VALUE : 0;
    link.name = what == 9;
    link.weak = what == 10 ? 2 : 0;
    link.from = what == 11;
    link.to = what == 12 ? -1 : 0;
    put_link(b, &link);
    end.objects = what == 13 ? 2 : 1;
    end.links = what == 14 ? 0 : 1;
    put_snapend(b, &end);
    if (what == 15)
        put_object(b, &object);
    if (what == 16)
        buffer_byte(b, 99);
    if (what == 17)
        buffer_byte(b, REC_SNAPSHOT);
}

static void append_part(struct bytes *file, const struct buffer *b, size_t size)
{
    struct chunk_header h = {.type = CHUNK_SNAPSHOT};
    append_chunk(file, &h, &(struct bytes){b->data, size});
}

static void check_crafted(const struct buffer *b, size_t size, bool good, const char *what)
{
    struct bytes file = {0};
    append_file_header(&file);
    append_part(&file, b, size);
    struct reading got = read_bytes(file.data, file.size, MT_OPEN_SNAPSHOTS);
    assert_int_equal(got.result, MT_ERROR);
    if (got.err.code != (good ? MT_E_TRUNCATED : MT_E_CORRUPT))
        fail_msg("%s: %s", what, got.err.text);
    reading_free(&got);
    free(file.data);
}

/* A part that ends early is rejected, or, at the end of a record, waits for the next part, which does not come. */
static void check_cut(const struct buffer *b, size_t size)
{
    const struct mt_event *events;
    size_t n;
    struct bytes file = {0};
    append_file_header(&file);
    append_part(&file, b, size);
    int fd = memory_file(file.data, file.size);
    struct mt_reader *r = mt_open(memory_path(fd), MT_OPEN_SNAPSHOTS, NULL);
    assert_non_null(r);
    assert_int_equal(mt_next(r, &events, &n), MT_ERROR);
    assert_int_equal(mt_count_snapshots(r), 0);
    mt_close(r);
    close(fd);
    free(file.data);
}

static void test_hostile(void **state)
{
    struct buffer b = {0};
    (void)state;
    put_good(&b);
    check_crafted(&b, buffer_size(&b), true, "good"); /* truncated: it has no END */
    for (size_t size = 0; size < buffer_size(&b); size++)
        check_cut(&b, size);
    for (int what = 0; what < 19; what++) {
        char name[16];
        snprintf(name, sizeof name, "case %d", what);
        buffer_reset(&b);
        put_bad(&b, what);
        check_crafted(&b, buffer_size(&b), false, name);
    }
    buffer_free(&b);
}

static unsigned s_lines;

static void count_line(void *ctx, const char *text)
{
    s_lines += strncmp(text, (const char *)ctx, strlen((const char *)ctx)) == 0;
}

static void test_dump(void **state)
{
    int fd = memory_file("", 0);
    (void)state;
    struct mt_writer *w = writer(fd);
    mt_writer_snapshot_begin(w, &(struct mt_snapshot){.heap = 1});
    for (int i = 0; i < 5; i++)
        mt_writer_object(w, &(struct mt_object){.addr = 16, .type = MT_TYPE_STR});
    mt_writer_snapshot_end(w);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    assert_int_equal(mt_dump(memory_path(fd), 0, count_line, (void *)"object ", NULL), MT_END);
    assert_int_equal(s_lines, 5);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roundtrip), cmocka_unit_test(test_shards), cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_dropped),   cmocka_unit_test(test_sample), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_dump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
