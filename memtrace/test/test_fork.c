/* test_fork.c - the trace of a forked child, and how long freed blocks are remembered.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/blocks/freed_blocks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A parent with two live blocks and a dead one; sites 1 (load) and 2 (store), stacks 1 and 2, heap 1. */
static struct mt_writer *new_parent(int fd)
{
    struct mt_writer *w = mt_writer_new(fd, NULL, NULL);
    assert_non_null(w);
    mt_writer_info(w, "command", "parent");
    uint32_t name = mt_writer_string(w, "main", 4);
    mt_writer_frame(w, &(struct mt_frame){.ip = 1, .function = name, .line = 3});
    mt_writer_frame(w, &(struct mt_frame){.ip = 2, .function = name});
    mt_writer_stack(w, mt_writer_stack(w, 0, 1), 2);
    mt_writer_site(w, &(struct mt_site){.ip = 16, .frame = 1, .size = 8, .kind = MT_LOAD});
    mt_writer_site(w, &(struct mt_site){.ip = 20, .frame = 2, .size = 4, .kind = MT_STORE});
    mt_writer_heap(w, &(struct mt_heap){.id = 0xabc, .kind = MT_HEAP_LUA});
    mt_writer_thread(w, 3);
    mt_writer_time(w, 100);
    mt_writer_block_new(w, 0x1000, 64, 0, MT_HOW_CALLOC, 1);
    mt_writer_block_new(w, 0x2000, 64, 0, MT_HOW_MALLOC, 1);
    mt_writer_block_new(w, 0x3000, 50, 1, MT_HOW_LUA, 1);
    mt_writer_block_free(w, 0x2000, 0, 1);
    mt_writer_block_resize(w, 0x3000, 0x4000, 70, 1, MT_HOW_LUA, 2);
    mt_writer_time(w, 200);
    return w;
}

static struct reading finish(struct mt_writer *w, int fd, unsigned flags)
{
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    struct reading got = read_bytes(file.data, file.size, flags);
    assert_int_equal(got.result, MT_END);
    free(file.data);
    return got;
}

static void check_inherited(const struct reading *got)
{
    const struct mt_event first = {.kind = MT_NEW, .addr = 0x1000, .size = 64, .handle = 0, .slot = 0};
    const struct mt_event second = {
        .kind = MT_NEW, .addr = 0x4000, .size = 70, .handle = 1, .slot = 1, .heap = 1, .how = MT_HOW_LUA};
    struct mt_event expected[] = {first, second};
    expected[0].how = MT_HOW_CALLOC;
    for (uint32_t i = 0; i < 2; i++) {
        expected[i].implied = 1;
        expected[i].thread = 3;
        expected[i].time = 200;
        expected[i].ref = i + 1;
        assert_true(same_event(&got->events[i], &expected[i]));
    }
}

static void check_definitions(int fd)
{
    const struct mt_event *events;
    size_t n;
    struct mt_reader *r = mt_open(memory_path(fd), 0, NULL);
    assert_non_null(r);
    while (mt_next(r, &events, &n) == MT_MORE)
        continue;
    assert_string_equal(mt_info(r, "command"), "parent");
    assert_string_equal(mt_string(r, mt_frame(r, 1)->function), "main");
    assert_int_equal(mt_frame(r, 1)->line, 3);
    assert_int_equal(mt_stack(r, 2)->parent, 1);
    assert_int_equal(mt_stack(r, 2)->frame, 2);
    assert_int_equal(mt_site(r, 2)->frame, 2);
    assert_int_equal(mt_heap(r, 1)->id, 0xabc);
    assert_int_equal(mt_count_stacks(r), 4);
    mt_close(r);
}

/* Both processes continue, each with its own definitions and events. */
static void test_both_go_on(void **state)
{
    int parent_fd = memory_file("", 0), child_fd = memory_file("", 0);
    struct mt_writer *parent = new_parent(parent_fd);
    struct mt_writer *child = mt_writer_fork(parent, child_fd, NULL, NULL);
    assert_non_null(child);
    uint64_t addr = 0x4008;
    assert_int_equal(mt_writer_stack(child, 2, 1), 3);
    assert_int_equal(mt_writer_stack(parent, 1, 1), 3);
    mt_writer_accesses(child, &(uint32_t){2}, &addr, 1);
    mt_writer_block_free_as(child, 0x1000, 0, MT_HOW_MALLOC, 3);
    mt_writer_block_free(parent, 0x4000, 1, 3);
    struct reading a = finish(parent, parent_fd, 0), b = finish(child, child_fd, 0);
    check_inherited(&b);
    check_definitions(child_fd);
    assert_int_equal(a.count, 6);
    assert_int_equal(a.events[5].handle, 2);
    assert_int_equal(b.count, 4);
    assert_int_equal(b.events[2].kind, MT_STORE);
    assert_int_equal(b.events[2].offset, 8);
    assert_int_equal(b.events[2].handle, 1);
    assert_int_equal(b.events[3].kind, MT_FREE);
    assert_int_equal(b.events[3].handle, 0);
    assert_int_equal(b.stats.live_slots, 1);
    reading_free(&a);
    reading_free(&b);
    close(parent_fd);
    close(child_fd);
}

/* A fork of a fork, with so many definitions that they take several chunks. */
static void test_many_definitions(void **state)
{
    enum { MANY = 100000 };
    int fds[3] = {memory_file("", 0), memory_file("", 0), memory_file("", 0)};
    struct mt_writer *w[3] = {new_parent(fds[0])};
    char text[100];
    memset(text, 'x', sizeof text);
    for (uint32_t i = 0; i < MANY; i++) {
        memcpy(text, &(uint32_t){i | 0x80808080}, 4);
        mt_writer_string(w[0], text, sizeof text);
    }
    for (int i = 1; i < 3; i++) {
        w[i] = mt_writer_fork(w[i - 1], fds[i], NULL, NULL);
        assert_non_null(w[i]);
        assert_int_equal(mt_writer_string(w[i], text, sizeof text),
                         mt_writer_string(w[0], text, sizeof text));
    }
    for (int i = 0; i < 3; i++) {
        struct reading got = finish(w[i], fds[i], 0);
        assert_int_equal(got.count, i ? 2 : 5);
        if (i)
            check_inherited(&got);
        reading_free(&got);
        close(fds[i]);
    }
}

/* Read a child's file of limited size to its end. Its last event says how much is missing, unless nothing is. */
static struct reading limited_child(const struct mt_writer *parent, uint64_t bytes, unsigned events)
{
    int fd = memory_file("", 0);
    struct mt_writer *child = mt_writer_fork(parent, fd, NULL, NULL);
    assert_non_null(child);
    mt_writer_limit(child, bytes, "limit");
    for (uint32_t i = 0, time = 1000; i < events; i++) {
        mt_writer_time(child, time += i * 2654435761u >> 20);
        mt_writer_mark(child, 0);
    }
    struct reading got = finish(child, fd, 0);
    assert_true(lseek(fd, 0, SEEK_END) <= (off_t)bytes);
    close(fd);
    return got;
}

/* Three limits: one below which chunks are made smaller, one that the events after the fork exceed, and one that
 * the inherited definitions alone exceed. */
static void test_limited_child(void **state)
{
    enum { MANY = 100000 };
    int fd = memory_file("", 0);
    struct mt_writer *parent = new_parent(fd);
    struct reading got = limited_child(parent, 1 << 20, 1);
    check_inherited(&got);
    assert_int_equal(got.count, 3);
    reading_free(&got);
    got = limited_child(parent, 4096, MANY);
    check_inherited(&got);
    assert_int_equal(got.events[got.count - 1].kind, MT_LOST);
    reading_free(&got);
    for (uint32_t i = 0; i < MANY; i++)
        mt_writer_string(parent, (const char *)&i, sizeof i);
    got = limited_child(parent, 65536, 1);
    assert_int_equal(got.count, 1);
    assert_int_equal(got.events[0].kind, MT_LOST);
    assert_int_equal(got.events[0].size, 3);
    reading_free(&got);
    got = finish(parent, fd, 0);
    reading_free(&got);
    close(fd);
}

static void test_cannot_fork(void **state)
{
    struct mt_error err = {0};
    int fd = memory_file("", 0), full = open("/dev/full", O_WRONLY);
    struct mt_writer *w = new_parent(fd);
    assert_true(full >= 0);
    assert_null(mt_writer_fork(w, full, NULL, &err));
    assert_int_equal(err.code, MT_E_IO);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    w = mt_writer_new(fd, NULL, NULL);
    close(fd);
    mt_writer_mark(w, 0);
    assert_int_equal(mt_writer_flush(w), MT_ERROR);
    err = (struct mt_error){0};
    assert_null(mt_writer_fork(w, full, NULL, &err));
    assert_int_equal(err.code, MT_E_IO);
    mt_writer_finish(w, MT_ENDING_EXIT, NULL);
    close(full);
}

/* A writer that does not remember freed blocks counts accesses to them as foreign, and a second free as invalid. */
static void write_errors(int fd, bool forget)
{
    const struct mt_writer_options options = {.forget_freed = forget};
    struct mt_writer *w = mt_writer_new(fd, &options, NULL);
    struct mt_totals t;
    assert_non_null(w);
    uint32_t site = mt_writer_site(w, &(struct mt_site){.ip = 1, .size = 8, .kind = MT_LOAD});
    mt_writer_block_new(w, 0x1000, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_free(w, 0x1000, 0, 0);
    mt_writer_accesses(w, &site, &(uint64_t){0x1008}, 1);
    mt_writer_block_free(w, 0x1000, 0, 0);
    mt_writer_totals(w, &t);
    assert_int_equal(t.freed, !forget);
    assert_int_equal(t.foreign, forget);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
}

static void test_freed_blocks_may_be_forgotten(void **state)
{
    for (int forget = 0; forget < 2; forget++) {
        int fd = memory_file("", 0);
        write_errors(fd, forget);
        struct bytes file = memory_bytes(fd);
        struct reading r = read_bytes(file.data, file.size, 0);
        const struct mt_event *last = &r.events[r.count - 1];
        assert_int_equal(last->kind, MT_BADFREE);
        assert_int_equal(last->how, forget ? MT_BADFREE_INVALID : MT_BADFREE_DOUBLE);
        reading_free(&r);
        free(file.data);
        close(fd);
    }
}

/* The oldest freed blocks are removed when there are too many, and reused ones at once. */
static void test_freed_are_bounded(void **state)
{
    struct freed_blocks g;
    assert_true(freed_init(&g, false));
    for (uint64_t i = 0; i < 3 * FREED_MOST; i++) {
        struct block b = {.base = 0x100000 + 32 * i, .size = 24, .handle = i};
        assert_true(freed_add(&g, &b));
        assert_int_equal(g.map.live, i < FREED_MOST ? i + 1 : FREED_MOST);
    }
    uint64_t oldest = 2 * FREED_MOST, at = 0x100000 + 32 * oldest;
    assert_null(freed_find(&g, at - 32));
    assert_int_equal(freed_at(&g, at)->handle, oldest);
    assert_int_equal(freed_find(&g, at + 23)->handle, oldest);
    assert_null(freed_find(&g, at + 24));
    assert_null(freed_at(&g, at + 8));
    freed_cover(&g, at + 8, 40);
    assert_null(freed_find(&g, at));
    assert_null(freed_find(&g, at + 32));
    assert_int_equal(g.map.live, FREED_MOST - 2);
    for (uint64_t i = 0; i < 10; i++)
        assert_true(freed_add(&g, &(struct block){.base = 64 * i, .size = 8, .handle = i}));
    assert_int_equal(g.map.live, FREED_MOST);
    assert_null(freed_find(&g, at + 9 * 32));
    assert_non_null(freed_find(&g, at + 10 * 32));
    freed_destroy(&g);
}

/* The parts of a freed block that no block has reused remain, with the base of the original block. Small parts do
 * not. */
static void test_freed_are_cut(void **state)
{
    struct freed_blocks g;
    assert_true(freed_init(&g, false));
    assert_true(freed_add(&g, &(struct block){.base = 0x10000, .size = 0x1000, .handle = 7}));
    assert_true(freed_take(&g, 0x10000, 20));
    assert_null(freed_at(&g, 0x10000));
    assert_null(freed_find(&g, 0x1001f));
    assert_null(freed_at(&g, 0x10020));
    assert_int_equal(freed_base(&g, freed_find(&g, 0x10020)), 0x10000);
    freed_cover(&g, 0x10800, 0x100);
    assert_int_equal(g.map.live, 2);
    assert_int_equal(freed_find(&g, 0x107ff)->handle, 7);
    assert_null(freed_find(&g, 0x10800));
    assert_null(freed_find(&g, 0x108ff));
    assert_int_equal(freed_base(&g, freed_find(&g, 0x10900)), 0x10000);
    assert_false(freed_take(&g, 0x107f0, 0x20));
    freed_cover(&g, 0x10910, 0x6e0);
    assert_null(freed_find(&g, 0x10900));
    assert_null(freed_find(&g, 0x10fff));
    freed_cover(&g, 0x10000, 0x1000);
    assert_int_equal(g.map.live, 0);
    freed_destroy(&g);
}

/* Compared with a table of bytes: random blocks are freed, and random ones reuse their memory. */
static void test_cut_freed_equal_bytes(void **state)
{
    enum { BYTES = 1 << 19, ROUNDS = 3000 };
    static uint64_t held[BYTES]; /* handle, 0 = none */
    uint64_t bases[ROUNDS + 1], from = 1 << 20;
    struct freed_blocks g;
    assert_true(freed_init(&g, false));
    for (uint64_t i = 1, seed = 1; i <= ROUNDS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t size = 1 + (seed >> 40) % (i % 9 ? 300 : 300000),
                 at = (seed >> 20) % (BYTES - size) / 16 * 16;
        freed_cover(&g, from + at, size);
        memset(held + at, 0, (size + 15) / 16 * 16 * sizeof *held);
        bases[i] = from + at;
        if (i % 2)
            continue;
        assert_true(freed_add(&g, &(struct block){.base = from + at, .size = size, .handle = i}));
        for (uint64_t j = 0; j < size; j++)
            held[at + j] = i;
    }
    for (uint64_t i = 0, run = 0; i < BYTES; i++) {
        const struct block *b = freed_find(&g, from + i);
        run = i && held[i] == held[i - 1] ? run + 1 : 1;
        if (b) {
            assert_int_equal(b->handle, held[i]);
            assert_int_equal(freed_base(&g, b), bases[held[i]]);
        } else if (held[i]) {
            uint64_t end = i;
            while (end < BYTES && held[end] == held[i])
                end++;
            assert_true(run + (end - i) - 1 < FREED_LEAST);
        }
    }
    freed_destroy(&g);
}

/* A page known to have no block is examined again after a block was allocated there, also a large one. */
static void test_foreign_pages(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_parent(fd);
    uint32_t sites[] = {1, 1, 1};
    uint64_t addrs[] = {0x700000, 0x700008, 0x40200000};
    struct mt_totals totals;
    mt_writer_accesses(w, sites, addrs, 3);
    mt_writer_block_new(w, 0x700000, 4096, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_new(w, 0x40000000, 1 << 22, 0, MT_HOW_MALLOC, 0);
    mt_writer_accesses(w, sites, addrs, 3);
    mt_writer_block_free(w, 0x700000, 0, 0);
    mt_writer_block_free(w, 0x40000000, 0, 0);
    mt_writer_accesses(w, sites, addrs, 3);
    mt_writer_totals(w, &totals);
    assert_int_equal(totals.foreign, 3);
    assert_int_equal(totals.events[MT_LOAD], 3);
    assert_int_equal(totals.freed, 3);
    struct reading got = finish(w, fd, MT_OPEN_FREED);
    assert_int_equal(got.events[got.count - 1].offset, 0x200000);
    assert_int_equal(got.events[got.count - 1].freed, 1);
    reading_free(&got);
    close(fd);
}

/* What remains of a large freed block when a part of its inside is used again: the bytes before it, and those after it
 * in two parts. */
static void test_large_freed_blocks_are_cut(void **state)
{
    const uint64_t base = 1 << 24, size = 1 << 20, used = base + 4096;
    const uint64_t freed[] = {base,         used - 1,        used + 112,     base + 65535,
                              base + 65536, base + size / 2, base + size - 1};
    struct freed_blocks g;
    assert_true(freed_init(&g, false));
    assert_true(freed_add(&g, &(struct block){.base = base, .size = size, .handle = 5}));
    freed_cover(&g, used, 100);
    for (size_t i = 0; i < sizeof freed / sizeof *freed; i++) {
        const struct block *dead = freed_find(&g, freed[i]);
        assert_true(dead && dead->handle == 5 && freed_base(&g, dead) == base);
    }
    assert_null(freed_find(&g, used));
    assert_null(freed_find(&g, used + 99));
    assert_null(freed_find(&g, base + size));
    assert_int_equal(freed_at(&g, base)->handle, 5);
    freed_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_go_on),
        cmocka_unit_test(test_many_definitions),
        cmocka_unit_test(test_limited_child),
        cmocka_unit_test(test_cannot_fork),
        cmocka_unit_test(test_freed_blocks_may_be_forgotten),
        cmocka_unit_test(test_freed_are_bounded),
        cmocka_unit_test(test_freed_are_cut),
        cmocka_unit_test(test_cut_freed_equal_bytes),
        cmocka_unit_test(test_foreign_pages),
        cmocka_unit_test(test_large_freed_blocks_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
