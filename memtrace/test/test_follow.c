/* test_follow.c - reading a trace while it is being written: whatever part of the file is there, the events are those of
 * the whole file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/format/chunk.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <fcntl.h>
#include <unistd.h>

/* A file that grows, and what was read of it. */
struct growing {
    struct bytes file;
    size_t written, read; /* bytes; events */
    int fd, lock;
    struct reading whole;
    struct mt_reader *reader;
};

static int open_again(int fd)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static void grow(struct growing *g, size_t bytes)
{
    if (bytes > g->file.size - g->written)
        bytes = g->file.size - g->written;
    assert_int_equal(pwrite(g->fd, g->file.data + g->written, bytes, (off_t)g->written), bytes);
    g->written += bytes;
}

/* A file with its first bytes, which is locked like the recorder's. */
static struct growing begin(size_t bytes)
{
    char path[40];
    struct mt_error err;
    struct growing g = {
        .file = simple_trace(4, (struct mt_writer_options){.chunk_events = 50, .checkpoint_interval = 3}),
        .fd = memory_file("", 0)};
    g.whole = read_bytes(g.file.data, g.file.size, MT_OPEN_FREED);
    g.lock = open_again(g.fd);
    assert_int_equal(flock(g.lock, LOCK_EX), 0);
    grow(&g, bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", g.fd);
    g.reader = mt_open(path, MT_OPEN_FREED, &err);
    assert_non_null(g.reader);
    return g;
}

/* Read what is available. Returns the result of the last mt_next. */
static int read_on(struct growing *g)
{
    const struct mt_event *events;
    size_t n;
    int result;
    while ((result = mt_next(g->reader, &events, &n)) == MT_MORE)
        for (size_t i = 0; i < n; i++, g->read++)
            assert_true(g->read < g->whole.count && same_event(&events[i], &g->whole.events[g->read]));
    return result;
}

static void end(struct growing *g)
{
    mt_close(g->reader);
    reading_free(&g->whole);
    free(g->file.data);
    close(g->lock);
    close(g->fd);
}

static void test_any_pieces(void **state)
{
    struct growing g = begin(FILE_HEADER_SIZE);
    uint64_t seed = 3;
    unsigned news = 0, waits = 0;
    while (g.written < g.file.size) {
        const enum mt_followed result = mt_follow(g.reader);
        assert_true(result == MT_FOLLOW_MORE || result == MT_FOLLOW_WAIT);
        const size_t before = g.read;
        assert_int_equal(read_on(&g), MT_END);
        assert_true(result == MT_FOLLOW_MORE || g.read == before);
        news += g.read > before;
        waits += result == MT_FOLLOW_WAIT;
        grow(&g, 1 + random_below(&seed, 200));
    }
    assert_true(news > 20 && waits > 20);
    flock(g.lock, LOCK_UN);
    assert_int_equal(mt_follow(g.reader), MT_FOLLOW_MORE);
    assert_int_equal(read_on(&g), MT_END);
    assert_int_equal(g.read, g.whole.count);
    assert_int_equal(mt_follow(g.reader), MT_FOLLOW_END);
    end(&g);
}

/* The recorder is killed: what it has written is read, and then the file is truncated. */
static void test_recorder_gone(void **state)
{
    struct growing g = begin(FILE_HEADER_SIZE);
    assert_int_equal(mt_follow(g.reader), MT_FOLLOW_WAIT);
    grow(&g, g.file.size / 2);
    flock(g.lock, LOCK_UN);
    assert_int_equal(mt_follow(g.reader), MT_FOLLOW_MORE);
    assert_int_equal(read_on(&g), MT_ERROR);
    assert_int_equal(mt_reader_error(g.reader)->code, MT_E_TRUNCATED);
    assert_true(g.read > 100 && g.read < g.whole.count);
    assert_int_equal(mt_follow(g.reader), MT_FOLLOW_ERROR);
    end(&g);
}

/* Damage is reported when its chunk is read, and not waited for. */
static void test_damage(void **state)
{
    struct growing g = begin(FILE_HEADER_SIZE);
    for (size_t i = g.file.size / 2; i < g.file.size; i++)
        g.file.data[i] ^= 0x55;
    grow(&g, g.file.size);
    assert_int_equal(mt_follow(g.reader), MT_FOLLOW_MORE);
    assert_int_equal(read_on(&g), MT_ERROR);
    assert_int_equal(mt_reader_error(g.reader)->code, MT_E_CORRUPT);
    end(&g);
}

static void test_not_a_plain_file(void **state)
{
    static const char text[] = ">>> N 1000 8\n";
    struct mt_error err;
    char path[40];
    int fd = memory_file(text, sizeof text - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct mt_reader *r = mt_open(path, MT_OPEN_TEXT, &err);
    assert_non_null(r);
    assert_int_equal(mt_follow(r), MT_FOLLOW_ERROR);
    assert_int_equal(mt_reader_error(r)->code, MT_E_FORMAT);
    mt_close(r);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_pieces),
        cmocka_unit_test(test_recorder_gone),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_not_a_plain_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
