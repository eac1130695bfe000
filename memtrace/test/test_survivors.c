/* test_survivors.c - the lists at the end of a trace: of the blocks that are live there, and as crafted files of the
 * containers (test_containers.c has their meaning). The first agrees with the events, for programs that read
 * it before the trace. Traces that are cut off, damaged or limited have no list.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/base/id_list.h"
#include "memtrace/format/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The list of a file, which the caller frees. */
struct survivors {
    bool known;
    uint64_t *list;
    size_t n;
};

static struct survivors survivors_of(struct bytes file, unsigned flags)
{
    struct survivors t = {0};
    int fd = memory_file(file.data, file.size);
    struct mt_reader *r = mt_open(memory_path(fd), flags, NULL);
    t.known = r && mt_survivors(r, &t.list, &t.n);
    mt_close(r);
    close(fd);
    return t;
}

static void expect_silent(struct bytes file, unsigned flags)
{
    struct survivors t = survivors_of(file, flags);
    assert_false(t.known);
    assert_null(t.list);
    assert_int_equal(t.n, 0);
}

/* The ordinals of blocks that are live at the end of these events, by address: no block has two. */
static size_t expected(const struct reading *got, uint64_t *list)
{
    static uint64_t addrs[1 << 20];
    uint64_t ordinal = 0;
    size_t n = 0, left = 0;
    for (size_t i = 0; i < got->count; i++) {
        const struct mt_event *e = &got->events[i];
        if (e->kind == MT_FREE || e->kind == MT_RESIZE)
            for (size_t k = 0; k < n; k++)
                if (addrs[k] == (e->kind == MT_FREE ? e->addr : e->old_addr) + 1)
                    addrs[k] = 0;
        if (e->kind != MT_NEW && e->kind != MT_RESIZE)
            continue;
        list[n] = ordinal++;
        addrs[n++] = e->addr + 1;
    }
    for (size_t k = 0; k < n; k++)
        if (addrs[k])
            list[left++] = list[k];
    return left;
}

static void check(struct bytes file)
{
    static uint64_t list[1 << 20];
    struct reading got = read_bytes(file.data, file.size, 0);
    struct survivors t = survivors_of(file, 0);
    assert_int_equal(got.result, MT_END);
    assert_true(t.known);
    assert_int_equal(t.n, expected(&got, list));
    if (t.n)
        assert_memory_equal(t.list, list, t.n * sizeof *list);
    free(t.list);
    reading_free(&got);
}

static struct bytes finished(struct mt_writer *w, int fd)
{
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    close(fd);
    return file;
}

/* Blocks allocated, resized and freed at random, some of them because another block overlaps them. */
static struct bytes random_trace(uint64_t seed, unsigned steps, const struct mt_writer_options *options)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, options, NULL);
    for (unsigned i = 0; i < steps; i++) {
        uint64_t addr = 4096 + 32 * random_below(&seed, 40), to = 4096 + 32 * random_below(&seed, 40);
        switch (random_below(&seed, 3)) {
        case 0:
            mt_writer_block_new(w, addr, 16 + random_below(&seed, 48), 0, 0, 0);
            break;
        case 1:
            mt_writer_block_resize(w, addr, to, 1 + random_below(&seed, 32), 0, MT_HOW_REALLOC, 0);
            break;
        default:
            mt_writer_block_free(w, addr, 0, 0);
        }
    }
    return finished(w, fd);
}

static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct bytes file = random_trace(
            seed, seed < 10 ? (unsigned)seed : 400,
            &(struct mt_writer_options){.chunk_events = seed % 2 ? 20 : 0, .checkpoint_interval = seed % 3});
        check(file);
        free(file.data);
    }
}

/* More blocks than a piece of the list can have, written by a thread. */
static void test_many(void **state)
{
    enum { MANY = 2 * ID_LIST_MOST + 3 };
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, &(struct mt_writer_options){.background = true}, NULL);
    (void)state;
    for (uint64_t i = 0; i < MANY; i++)
        mt_writer_block_new(w, 4096 + 64 * i, 32, 0, 0, 0);
    struct bytes file = finished(w, fd);
    struct survivors t = survivors_of(file, 0);
    assert_true(t.known);
    assert_int_equal(t.n, MANY);
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(t.list[i], i);
    struct reading got = read_bytes(file.data, file.size, 0);
    assert_int_equal(got.result, MT_END);
    reading_free(&got);
    free(t.list);
    free(file.data);
}

/* The News of a forked child begin with the inherited blocks. */
static void test_child(void **state)
{
    int fd = memory_file("", 0), child_fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, NULL, NULL), *child;
    (void)state;
    for (uint64_t i = 0; i < 6; i++)
        mt_writer_block_new(w, 4096 + 64 * i, 32, 0, 0, 0);
    mt_writer_block_free(w, 4096, 0, 0);
    mt_writer_block_resize(w, 4160, 8192, 64, 0, MT_HOW_REALLOC, 0);
    child = mt_writer_fork(w, child_fd, NULL, NULL);
    mt_writer_block_free(child, 8192, 0, 0);
    mt_writer_block_new(child, 8192, 32, 0, 0, 0);
    struct bytes files[] = {finished(w, fd), finished(child, child_fd)};
    for (int i = 0; i < 2; i++) {
        check(files[i]);
        free(files[i].data);
    }
}

/* A file of limited size has no list, whether the limit is reached or not. */
static void test_limited(void **state)
{
    (void)state;
    for (uint64_t limit = 4000; limit < 4000000; limit *= 100) {
        int fd = memory_file("", 0);
        uint64_t seed = 1;
        struct mt_writer *w = mt_writer_new(fd, &(struct mt_writer_options){.chunk_events = 100}, NULL);
        mt_writer_limit(w, limit, "limit");
        for (uint64_t i = 0; i < 2000; i++)
            mt_writer_block_new(w, 64 * random_below(&seed, 1 << 10), 32, 0, 0, 0);
        struct bytes file = finished(w, fd);
        expect_silent(file, 0);
        struct reading got = read_bytes(file.data, file.size, 0);
        assert_int_equal(got.result, MT_END);
        reading_free(&got);
        free(file.data);
    }
}

/* A file cut off anywhere has no list, nor has one that is compressed again, nor one that is salvaged. After it
 * was read the result is the same. */
static void test_silent(void **state)
{
    struct bytes file = random_trace(3, 50, NULL), text = {(uint8_t *)">>> N 1 1\n", 10};
    (void)state;
    size_t end = file.size;
    struct chunk_header h = {0};
    for (size_t at = FILE_HEADER_SIZE; h.type != CHUNK_END; at += CHUNK_HEADER_SIZE + h.stored_size) {
        assert_null(chunk_header_unpack(&h, file.data + at));
        end = at + CHUNK_HEADER_SIZE; /* of END's header: what follows it is not needed */
    }
    for (size_t size = 0; size < end; size++)
        expect_silent((struct bytes){file.data, size}, 0);
    expect_silent(file, MT_OPEN_SALVAGE);
    expect_silent(text, 0);
    free(file.data);
}

static void test_after_reading(void **state)
{
    struct bytes file =
        random_trace(4, 300, &(struct mt_writer_options){.chunk_events = 50, .checkpoint_interval = 1});
    struct survivors before = survivors_of(file, 0);
    int fd = memory_file(file.data, file.size);
    struct mt_reader *r = mt_open(memory_path(fd), 0, NULL);
    const struct mt_event *events;
    size_t n, again;
    uint64_t *list;
    (void)state;
    for (int result = MT_MORE; result == MT_MORE; result = mt_next(r, &events, &n)) {
        assert_true(mt_survivors(r, &list, &again));
        assert_int_equal(again, before.n);
        assert_memory_equal(list, before.list, again * sizeof *list);
        free(list);
    }
    assert_int_equal(mt_reader_error(r)->code, MT_E_NONE);
    mt_close(r);
    close(fd);
    free(before.list);
    free(file.data);
}

/* -- crafted files: one New, and what is said of what is left --------------------------------------- */

struct piece {
    const char *bytes;
    size_t size;
};

static void append_new(struct bytes *file, uint64_t before)
{
    struct bytes streams[EVENT_STREAMS] = {{0}};
    struct buffer rare = {0};
    put_new(&rare, &(struct rec_new){0, before, 4096 + 64 * before, 16, 0, 0, 0});
    put_stop(&rare, &(struct rec_stop){});
    streams[STREAM_TOKENS] = (struct bytes){(uint8_t[]){0, 0}, 2};
    streams[STREAM_RARE] = (struct bytes){rare.data, buffer_size(&rare)};
    append_chunk(file,
                 &(struct chunk_header){
                     .type = CHUNK_EVENTS, .events = 1, .first_event = before, .first_handle = before},
                 streams);
    buffer_free(&rare);
}

/* type: of the pieces; more: a chunk of events follows them. */
static struct bytes crafted(enum chunk_type type, const struct piece *pieces, bool more)
{
    struct bytes file = {0};
    struct buffer end = {0};
    struct chunk_header h = {.type = (uint8_t)type, .first_event = 1, .first_handle = 1};
    append_file_header(&file);
    append_new(&file, 0);
    for (; pieces->bytes; pieces++)
        append_chunk(&file, &h, &(struct bytes){(uint8_t *)pieces->bytes, pieces->size});
    if (more)
        append_new(&file, 1);
    h = (struct chunk_header){.type = CHUNK_END, .first_event = 1 + more, .first_handle = 1 + more};
    put_end(&end, &(struct rec_end){.ending = MT_ENDING_EXIT, .events.of[MT_NEW] = 1 + more});
    append_chunk(&file, &h, &(struct bytes){end.data, buffer_size(&end)});
    buffer_free(&end);
    return file;
}

static void test_crafted(void **state)
{
    static const struct {
        struct piece pieces[3];
        bool more, known;
        const char *text; /* NULL: reading finds no error */
    } cases[] = {
        {{{NULL, 0}}, false, false, NULL},
        {{{"\0\0", 2}}, false, true, NULL},
        {{{"\0\7", 2}}, false, true, NULL}, /* another block: found by a comparison with the events */
        {{{"\1\0", 2}, {"\0", 1}}, false, true, NULL},
        {{{"\1", 1}, {"\0\0", 2}}, false, true, NULL},
        {{{"\0", 1}}, false, true, "live at the end"}, /* not as many as live */
        {{{"\0\0\0", 3}}, false, true, "live at the end"},
        {{{"\2\0", 2}}, false, false, "live at the end"},
        {{{"\0\x80", 2}}, false, false, "live at the end"},
        {{{"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1", 11}}, false, false, "live at the end"},
        {{{"\0\0", 2}, {"\0", 1}}, false, false, "live at the end"}, /* one more than was said */
        {{{"\0\0", 2}}, true, true, "out of order"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes file = crafted(CHUNK_SURVIVORS, cases[i].pieces, cases[i].more);
        struct reading got = read_bytes(file.data, file.size, 0);
        struct survivors t = survivors_of(file, 0);
        if (got.result != (cases[i].text ? MT_ERROR : MT_END) || t.known != cases[i].known)
            fail_msg("case %zu: %d, %s, known %d", i, got.result, got.err.text, t.known);
        if (cases[i].text && !strstr(got.err.text, cases[i].text))
            fail_msg("case %zu: %s", i, got.err.text);
        reading_free(&got);
        got = read_bytes(file.data, file.size, MT_OPEN_SALVAGE);
        assert_int_equal(got.result, MT_END);
        reading_free(&got);
        free(t.list);
        free(file.data);
    }
}

/* Lists of containers, of a trace whose one block has the handle 0: in a list 0, or 1 if its allocator has not freed it. */
static void test_crafted_containers(void **state)
{
    static const struct {
        struct piece pieces[3];
        bool more, known;
        const char *text; /* NULL: reading finds no error */
        bool kept;
    } cases[] = {
        {{{"\0\0", 2}}, false, true, NULL, false},
        {{{"\0\1", 2}}, false, true, NULL, true},
        {{{"\0", 1}}, false, false, NULL, false}, /* an empty list is as good as none */
        {{{"\1\0", 2}, {"\0", 1}}, false, true, NULL, false},
        {{{"\1", 1}, {"\0\0", 2}}, false, true, NULL, false},
        {{{"\0\2", 2}}, false, false, "list of containers", false},  /* no such block */
        {{{"\0\0\1", 3}}, false, true, "list of containers", false}, /* nor this one */
        {{{"\2\0", 2}}, false, false, "list of containers", false},
        {{{"\0\x80", 2}}, false, false, "list of containers", false},
        {{{"\0\0", 2}, {"\0", 1}}, false, false, "list of containers", false}, /* one more than was said */
        {{{"\1\0", 2}}, false, false, "out of order", false},                  /* one less */
        {{{"\0\0", 2}}, true, true, "out of order", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes file = crafted(CHUNK_CONTAINERS, cases[i].pieces, cases[i].more);
        struct reading got = read_bytes(file.data, file.size, 0);
        if (got.result != (cases[i].text ? MT_ERROR : MT_END) || got.events[0].container != cases[i].known)
            fail_msg("case %zu: %d, %s, known %d", i, got.result, got.err.text, got.events[0].container);
        assert_int_equal(got.events[0].kept, cases[i].kept);
        if (cases[i].text && !strstr(got.err.text, cases[i].text))
            fail_msg("case %zu: %s", i, got.err.text);
        reading_free(&got);
        got = read_bytes(file.data, file.size, MT_OPEN_SALVAGE);
        assert_int_equal(got.result, MT_END);
        reading_free(&got);
        free(file.data);
    }
}

/* A list whose second piece is missing. */
static void test_piece_missing(void **state)
{
    static const struct piece pieces[] = {{"\1\0", 2}, {NULL, 0}};
    struct bytes file = crafted(CHUNK_SURVIVORS, pieces, false);
    struct reading got = read_bytes(file.data, file.size, 0);
    (void)state;
    assert_int_equal(got.result, MT_ERROR);
    assert_non_null(strstr(got.err.text, "missing or out of order"));
    expect_silent(file, 0);
    reading_free(&got);
    free(file.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),        cmocka_unit_test(test_many),
        cmocka_unit_test(test_child),         cmocka_unit_test(test_limited),
        cmocka_unit_test(test_silent),        cmocka_unit_test(test_after_reading),
        cmocka_unit_test(test_crafted),       cmocka_unit_test(test_crafted_containers),
        cmocka_unit_test(test_piece_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
