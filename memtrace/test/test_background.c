/* test_background.c - a writer whose chunks are compressed and written by a thread: the trace has the same events in
 * the same order, and every failure is reported. No test depends on which thread is faster.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 3000 };

static struct mt_writer *new_writer(int fd, bool background, uint32_t chunk_events,
                                    uint32_t checkpoint_interval)
{
    struct mt_error err = {0};
    struct mt_writer *w =
        mt_writer_new(fd,
                      &(struct mt_writer_options){.background = background,
                                                  .chunk_events = chunk_events,
                                                  .checkpoint_interval = checkpoint_interval},
                      &err);
    assert_non_null(w);
    return w;
}

/* Blocks that come and go, each with a stack and a few accesses of its own. */
static void write_some(struct mt_writer *w, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        uint64_t addr = 0x10000 + 64 * (i * 7919 % BLOCKS), addrs[3] = {addr, addr + 8 * (i % 6), addr + 40};
        uint32_t frame = mt_writer_frame(w, &(struct mt_frame){.ip = 0x400 + i});
        uint32_t site = mt_writer_site(w, &(struct mt_site){.ip = i, .size = 8, .kind = MT_LOAD});
        mt_writer_time(w, 10 * i);
        mt_writer_block_new(w, addr, 48, 0, MT_HOW_MALLOC, mt_writer_stack(w, 0, frame));
        mt_writer_accesses(w, (uint32_t[]){site, site, site}, addrs, 3);
        if (i % 3 == 0)
            mt_writer_block_free(w, addr, 0, 0);
    }
}

static struct bytes trace(bool background, uint32_t chunk_events, uint32_t checkpoint_interval)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, background, chunk_events, checkpoint_interval);
    write_some(w, 0, BLOCKS);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    close(fd);
    return file;
}

static void assert_same_trace(const struct bytes *a, const struct bytes *b)
{
    struct reading x = read_bytes(a->data, a->size, 0), y = read_bytes(b->data, b->size, 0);
    assert_int_equal(x.result, MT_END);
    assert_int_equal(y.result, MT_END);
    assert_int_equal(x.count, y.count);
    for (size_t i = 0; i < x.count; i++)
        assert_true(same_event(&x.events[i], &y.events[i]));
    reading_free(&x);
    reading_free(&y);
}

static void check_same(uint32_t chunk_events, uint32_t checkpoint_interval)
{
    struct bytes at_once = trace(false, chunk_events, checkpoint_interval),
                 later = trace(true, chunk_events, checkpoint_interval);
    assert_same_trace(&at_once, &later);
    free(at_once.data);
    free(later.data);
}

/* Many small chunks fill the queue. Definitions and checkpoints are between the chunks of events. */
static void test_same_trace(void **state)
{
    (void)state;
    check_same(10, 0);
    check_same(100, 1);
    check_same(1000, 2);
    check_same(0, 0); /* one chunk, no thread */
}

/* After a flush all is in the file. */
static void test_flush(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, true, 50, 0);
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        write_some(w, 100 * i, 100 * (i + 1));
        assert_int_equal(mt_writer_flush(w), MT_OK);
        struct bytes file = memory_bytes(fd);
        assert_int_equal(file.size, mt_writer_bytes(w));
        struct reading r = read_bytes(file.data, file.size, 0);
        assert_int_equal(r.err.code, MT_E_TRUNCATED); /* it has no END yet */
        struct mt_totals totals;
        mt_writer_totals(w, &totals);
        assert_int_equal(r.count, totals.events[MT_NEW] + totals.events[MT_FREE] + totals.events[MT_LOAD] +
                                      totals.freed);
        reading_free(&r);
        free(file.data);
    }
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    close(fd);
}

/* The reader of the pipe has ended: every event that is not written is counted, and the error is reported. */
static void test_failure(void **state)
{
    int ends[2];
    struct mt_totals totals;
    struct mt_error err = {0};
    (void)state;
    assert_int_equal(pipe(ends), 0);
    struct mt_writer *w = new_writer(ends[1], true, 10, 0);
    close(ends[0]);
    for (uint64_t i = 0; i < 1000; i++)
        mt_writer_block_new(w, 64 * i, 16, 0, MT_HOW_MALLOC, 0);
    assert_int_equal(mt_writer_flush(w), MT_ERROR);
    assert_int_equal(mt_writer_error(w)->code, MT_E_IO);
    assert_non_null(strstr(mt_writer_error(w)->text, strerror(EPIPE)));
    mt_writer_totals(w, &totals);
    assert_int_equal(totals.dropped, 1000);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, &err), MT_ERROR);
    assert_int_equal(err.code, MT_E_IO);
    close(ends[1]);
}

/* A file of limited size ends at the same event as without the thread. */
static void test_limit(void **state)
{
    struct bytes files[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        int fd = memory_file("", 0);
        struct mt_writer *w = new_writer(fd, i == 1, 100, 0);
        mt_writer_limit(w, 20000, "limit");
        write_some(w, 0, BLOCKS);
        assert_true(mt_writer_limited(w) > 0);
        assert_int_equal(mt_writer_finish(w, MT_ENDING_LIMIT, NULL), MT_OK);
        files[i] = memory_bytes(fd);
        assert_true(files[i].size <= 20000);
        close(fd);
    }
    assert_same_trace(&files[0], &files[1]);
    free(files[0].data);
    free(files[1].data);
}

/* The same as in the collector: flush, fork, and the child begins a file of its own with a thread of its own. */
static void test_fork(void **state)
{
    int mine = memory_file("", 0), childs = memory_file("", 0), status = 1;
    struct mt_writer *w = new_writer(mine, true, 50, 0);
    const struct mt_writer_options options = {.background = true, .chunk_events = 50};
    (void)state;
    write_some(w, 0, 500);
    assert_int_equal(mt_writer_flush(w), MT_OK);
    pid_t pid = fork();
    if (pid == 0) {
        struct mt_writer *child = mt_writer_fork(w, childs, &options, NULL);
        if (!child)
            _exit(2);
        write_some(child, 500, 1000);
        _exit(mt_writer_finish(child, MT_ENDING_EXIT, NULL) == MT_OK ? 0 : 3);
    }
    write_some(w, 500, 1000);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++) {
        struct bytes file = memory_bytes(i ? childs : mine);
        struct reading r = read_bytes(file.data, file.size, 0);
        assert_int_equal(r.result, MT_END);
        assert_true(r.count > 1500);
        reading_free(&r);
        free(file.data);
    }
    close(mine);
    close(childs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_trace), cmocka_unit_test(test_flush), cmocka_unit_test(test_failure),
        cmocka_unit_test(test_limit),      cmocka_unit_test(test_fork),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
