/* test_lua.c - Lua definitions and events are read as they were written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint32_t s_lines[] = {10, 12, 12, 11, 0, 4000000000U};

static struct mt_writer *write_all(int fd)
{
    struct mt_writer *w = mt_writer_new(fd, NULL, NULL);
    assert_non_null(w);
    uint32_t name = mt_writer_string(w, "grow", 4), file = mt_writer_string(w, "@a.lua", 6);
    uint32_t frame = mt_writer_frame(w, &(struct mt_frame){.ip = 0x5000,
                                                           .function = name,
                                                           .file = file,
                                                           .line = 12,
                                                           .defined = 10,
                                                           .trace = 7,
                                                           .nth = 300,
                                                           .kind = MT_FRAME_LUA_INLINED,
                                                           .approximate = 1});
    uint32_t heap = mt_writer_heap(w, &(struct mt_heap){.id = 0xabc, .kind = MT_HEAP_LUA});
    mt_writer_time(w, 50);
    mt_writer_block_new(w, 0x9000, 300, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_new(w, 0x1000, 200, heap, MT_HOW_LUA, mt_writer_stack(w, 0, frame));
    mt_writer_type(w, 0x1000, heap, MT_TYPE_PROTO);
    mt_writer_type(w, 0x1000, 0, MT_TYPE_STR);    /* a block of another heap: ignored */
    mt_writer_type(w, 0x1008, heap, MT_TYPE_STR); /* no block begins there: ignored */
    const struct mt_proto p = {
        .function = name, .file = file, .defined = 10, .nth = 2, .offset = 104, .count = 6, .lines = s_lines};
    mt_writer_proto(w, 0x1000, heap, &p);
    mt_writer_proto(w, 0x1008, heap, &p);
    mt_writer_trace(w, &(struct mt_trace){0x5000, 400, 50, heap, 7, frame});
    mt_writer_time(w, 60);
    mt_writer_state(w, heap, MT_VM_TRACE, 7);
    mt_writer_time(w, 61);
    mt_writer_state(w, heap, MT_VM_GC, 7);
    return w;
}

static void check_definitions(const struct mt_reader *r, uint64_t handle)
{
    const struct mt_frame *f = mt_frame(r, 1);
    assert_int_equal(f->kind, MT_FRAME_LUA_INLINED);
    assert_int_equal(f->approximate, 1);
    assert_int_equal(f->defined, 10);
    assert_int_equal(f->trace, 7);
    assert_int_equal(f->nth, 300);
    assert_string_equal(mt_string(r, f->file), "@a.lua");
    assert_int_equal(mt_count_protos(r), 1);
    const struct mt_proto *p = mt_proto(r, 0);
    assert_int_equal(p->handle, handle);
    assert_int_equal(p->heap, 1);
    assert_int_equal(p->offset, 104);
    assert_int_equal(p->nth, 2);
    assert_int_equal(p->count, 6);
    assert_memory_equal(p->lines, s_lines, sizeof s_lines);
    assert_string_equal(mt_string(r, p->function), "grow");
    assert_int_equal(mt_count_traces(r), 1);
    const struct mt_trace *t = mt_trace(r, 0);
    assert_int_equal(t->number, 7);
    assert_int_equal(t->addr, 0x5000);
    assert_int_equal(t->size, 400);
    assert_int_equal(t->frame, 1);
    assert_null(mt_proto(r, 1));
}

/* The definitions of a whole file. */
static void check_file(int fd, uint64_t handle)
{
    const struct mt_event *events;
    size_t n;
    struct mt_reader *r = mt_open(memory_path(fd), 0, NULL);
    assert_non_null(r);
    while (mt_next(r, &events, &n) == MT_MORE)
        continue;
    check_definitions(r, handle);
    mt_close(r);
}

static void test_roundtrip(void **state)
{
    int fd = memory_file("", 0);
    (void)state;
    assert_int_equal(mt_writer_finish(write_all(fd), MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    struct reading got = read_bytes(file.data, file.size, 0);
    assert_int_equal(got.result, MT_END);
    assert_int_equal(got.count, 5);
    assert_int_equal(got.events[2].kind, MT_TYPE);
    assert_int_equal(got.events[2].ref, MT_TYPE_PROTO);
    assert_int_equal(got.events[2].handle, 1);
    assert_int_equal(got.events[2].addr, 0x1000);
    assert_int_equal(got.events[3].kind, MT_STATE);
    assert_int_equal(got.events[3].how, MT_VM_TRACE);
    assert_int_equal(got.events[3].ref, 7);
    assert_int_equal(got.events[3].heap, 1);
    assert_int_equal(got.events[3].time, 60);
    assert_int_equal(got.events[4].how, MT_VM_GC);
    assert_int_equal(got.events[4].ref, 0);
    assert_int_equal(got.stats.totals.events[MT_TYPE], 1);
    assert_int_equal(got.stats.totals.events[MT_STATE], 2);
    check_file(fd, 1);
    reading_free(&got);
    free(file.data);
    close(fd);
}

/* Lines are numbers between texts of any length: none overlaps another. */
static void test_lines_between_names(void **state)
{
    static const char text[] = "abcdefgh";
    enum { NAMES = 8 };
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, NULL, NULL);
    uint32_t heap = mt_writer_heap(w, &(struct mt_heap){.id = 1, .kind = MT_HEAP_LUA});
    (void)state;
    for (uint32_t i = 0; i < NAMES; i++) {
        uint32_t name = mt_writer_string(w, text, i + 1);
        mt_writer_block_new(w, 0x1000 * (i + 1), 200, heap, MT_HOW_LUA, 0);
        mt_writer_type(w, 0x1000 * (i + 1), heap, MT_TYPE_PROTO);
        mt_writer_proto(w, 0x1000 * (i + 1), heap,
                        &(struct mt_proto){.function = name, .offset = 104, .count = 6, .lines = s_lines});
    }
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    const struct mt_event *events;
    size_t n;
    struct mt_reader *r = mt_open(memory_path(fd), 0, NULL);
    while (mt_next(r, &events, &n) == MT_MORE)
        ;
    assert_int_equal(mt_count_protos(r), NAMES);
    for (uint32_t i = 0; i < NAMES; i++) {
        const struct mt_proto *p = mt_proto(r, i);
        assert_int_equal(strlen(mt_string(r, p->function)), i + 1);
        assert_memory_equal(mt_string(r, p->function), text, i + 1);
        assert_memory_equal(p->lines, s_lines, sizeof s_lines);
    }
    mt_close(r);
    close(fd);
}

/* In the trace of a forked child the block of the prototype has another handle. */
static void test_fork(void **state)
{
    int parent_fd = memory_file("", 0), fd = memory_file("", 0);
    (void)state;
    struct mt_writer *parent = write_all(parent_fd);
    mt_writer_block_new(parent, 0xa000, 300, 1, MT_HOW_LUA,
                        0); /* a prototype whose block ends; a table reuses its address */
    mt_writer_type(parent, 0xa000, 1, MT_TYPE_PROTO);
    mt_writer_proto(parent, 0xa000, 1, &(struct mt_proto){.offset = 104, .count = 3, .lines = s_lines});
    mt_writer_block_free(parent, 0xa000, 1, 0);
    mt_writer_block_new(parent, 0xa000, 300, 1, MT_HOW_LUA, 0);
    mt_writer_type(parent, 0xa000, 1, MT_TYPE_TAB);
    mt_writer_block_free(parent, 0x9000, 0, 0);
    mt_writer_block_new(parent, 0x9100, 8, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_free(parent, 0x9100, 0, 0);
    struct mt_writer *child = mt_writer_fork(parent, fd, NULL, NULL);
    assert_non_null(child);
    assert_int_equal(mt_writer_finish(child, MT_ENDING_EXIT, NULL), MT_OK);
    assert_int_equal(mt_writer_finish(parent, MT_ENDING_EXIT, NULL), MT_OK);
    check_file(fd, 0);
    struct bytes file = memory_bytes(fd);
    struct reading got = read_bytes(file.data, file.size, 0);
    assert_int_equal(got.result, MT_END);
    assert_int_equal(got.count, 4);
    assert_int_equal(got.events[2].kind, MT_TYPE);
    assert_int_equal(got.events[2].ref, MT_TYPE_PROTO);
    assert_int_equal(got.events[2].addr, 0x1000);
    assert_int_equal(got.events[3].ref, MT_TYPE_TAB);
    assert_int_equal(got.events[3].addr, 0xa000);
    reading_free(&got);
    free(file.data);
    close(fd);
    close(parent_fd);
}

/* State of a test of calls: places of the same Lua file, sites in traces at these, and a site of C. */
struct calls {
    struct mt_writer *w;
    uint32_t line_12, again_12, line_13, host, site_12, site_13, site_host;
};

static uint32_t frame_at(struct mt_writer *w, uint64_t ip, uint32_t line, enum mt_frame_kind kind)
{
    return mt_writer_frame(
        w, &(struct mt_frame){.ip = ip, .file = mt_writer_string(w, "a.lua", 5), .line = line, .kind = kind});
}

static struct calls begin_calls(int fd)
{
    struct calls c = {.w = mt_writer_new(fd, NULL, NULL)};
    assert_non_null(c.w);
    c.line_12 = frame_at(c.w, 0x5000, 12, MT_FRAME_LUA);
    c.again_12 = frame_at(c.w, 0x5010, 12, MT_FRAME_LUA_INLINED);
    c.line_13 = frame_at(c.w, 0x5020, 13, MT_FRAME_LUA);
    c.host = frame_at(c.w, 0x400, 12, MT_FRAME_HOST);
    c.site_12 = mt_writer_site(c.w, &(struct mt_site){0x5000, c.line_12, 8, MT_LOAD});
    c.site_13 = mt_writer_site(c.w, &(struct mt_site){0x5020, c.line_13, 8, MT_STORE});
    c.site_host = mt_writer_site(c.w, &(struct mt_site){0x400, c.host, 8, MT_LOAD});
    mt_writer_block_new(c.w, 0x9000, 300, 0, MT_HOW_MALLOC, 0);
    return c;
}

static void access_at(struct calls *c, uint32_t site, uint64_t addr)
{
    mt_writer_accesses(c->w, &site, &addr, 1);
}

/* Calls whose line is that of the thread's last access, and others. */
static void make_calls(struct calls *c)
{
    mt_writer_call(c->w, c->line_12); /* written: nothing is known yet */
    access_at(c, c->site_12, 0x9000);
    mt_writer_call(c->w, c->again_12); /* known */
    mt_writer_call(c->w, c->line_13);  /* written */
    access_at(c, c->site_host, 0x9000);
    mt_writer_call(c->w, c->line_12); /* written: the last access was by C */
    access_at(c, c->site_12, 0x9000);
    mt_writer_thread(c->w, 2);
    mt_writer_call(c->w, c->line_12); /* written: the last access was by another thread */
    access_at(c, c->site_12, 0x9008);
    access_at(c, c->site_13, 0x100000); /* to no block: readers do not see it */
    mt_writer_call(c->w, c->line_13);   /* written, */
    mt_writer_call(c->w, c->line_13);   /* known, */
    mt_writer_call(c->w, c->line_12);   /* written: readers assume the call before */
    access_at(c, c->site_12, 0x9000);
    mt_writer_call(c->w, c->again_12); /* known */
    mt_writer_call(c->w, c->line_13);  /* written */
    assert_int_equal(mt_writer_flush(c->w), MT_OK);
    mt_writer_thread(c->w, 1);
    mt_writer_call(c->w, c->line_13); /* written: another thread; chunks begin with thread 1 */
    mt_writer_call(c->w, c->line_12); /* written */
    assert_int_equal(mt_writer_flush(c->w), MT_OK);
    access_at(c, c->site_12, 0x9000);
    mt_writer_call(c->w, c->line_12); /* known */
    mt_writer_thread(c->w, 2);
    access_at(c, c->site_12, 0x100000); /* to no block */
    mt_writer_call(c->w, c->line_12);   /* written: another thread */
    mt_writer_call(c->w, c->host);      /* not a call of a trace */
    mt_writer_call(c->w, 0);
}

static void test_calls(void **state)
{
    static const struct {
        uint32_t line;
        uint16_t thread;
    } expected[] = {{12, 1}, {13, 1}, {12, 1}, {12, 2}, {13, 2}, {12, 2}, {13, 2}, {13, 1}, {12, 1}, {12, 2}};
    const size_t expected_count = sizeof expected / sizeof *expected;
    int fd = memory_file("", 0);
    (void)state;
    struct calls c = begin_calls(fd);
    make_calls(&c);
    assert_int_equal(mt_writer_finish(c.w, MT_ENDING_EXIT, NULL), MT_OK);
    struct mt_reader *r = mt_open(memory_path(fd), 0, NULL);
    const struct mt_event *e;
    size_t n, found = 0;
    while (mt_next(r, &e, &n) == MT_MORE)
        for (size_t i = 0; i < n; i++)
            if (e[i].kind == MT_CALL) {
                assert_true(found < expected_count);
                assert_int_equal(mt_frame(r, mt_stack(r, e[i].ref)->frame)->line, expected[found].line);
                assert_int_equal(e[i].thread, expected[found++].thread);
            }
    struct mt_reader_stats s;
    mt_reader_stats(r, &s);
    assert_int_equal(found, expected_count);
    assert_int_equal(s.totals.events[MT_CALL], expected_count);
    assert_string_equal(mt_kind_name(MT_CALL), "call");
    mt_close(r);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roundtrip),
        cmocka_unit_test(test_lines_between_names),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
