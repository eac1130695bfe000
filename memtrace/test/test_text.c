/* test_text.c - classic text traces: what counts as an event, and what the events mean.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

static void expect(const struct reading *r, size_t i, enum mt_kind kind, uint64_t handle, uint64_t addr,
                   uint64_t size)
{
    assert_true(i < r->count);
    assert_int_equal(r->events[i].kind, kind);
    assert_int_equal(r->events[i].handle, handle);
    assert_true(r->events[i].addr == addr);
    assert_true(r->events[i].size == size);
    assert_int_equal(r->events[i].ref, 0);
    assert_int_equal(r->events[i].thread, 1);
}

static void test_plain(void **state)
{
    struct reading r = read_string(">>> N 100 16\n>>> S 100 8\n>>> N 200 8\n>>> L 204 4\n>>> M 115 8\n"
                                   ">>> F 100 0\n>>> N 100 4\n>>> F 200 0\n",
                                   0);
    assert_int_equal(r.result, MT_END);
    assert_int_equal(r.count, 8);
    expect(&r, 0, MT_NEW, 0, 100, 16);
    expect(&r, 1, MT_STORE, 0, 100, 8);
    expect(&r, 2, MT_NEW, 1, 200, 8);
    expect(&r, 3, MT_LOAD, 1, 204, 4);
    assert_int_equal(r.events[3].offset, 4);
    expect(&r, 4, MT_MODIFY, 0, 115, 8);
    expect(&r, 5, MT_FREE, 0, 100, 16);
    expect(&r, 6, MT_NEW, 2, 100, 4);
    expect(&r, 7, MT_FREE, 1, 200, 8);
    assert_int_equal(r.events[6].slot, 0);
    assert_true(r.stats.is_text);
    assert_int_equal(r.stats.live_slots, 1);
    assert_int_equal(r.stats.handles, 3);
    assert_int_equal(r.stats.totals.events[MT_NEW], 3);
    reading_free(&r);
}

/* Lines of other output, even those that look nearly right, are passed over. */
static void test_mixed(void **state)
{
    struct reading r =
        read_string("==12== Memcheck\n\n>>>\n>>> \n>>> N 1\n>>> N 100 16 x\n>>>N 100 16\n >>> N 100 16\n"
                    ">>> x = 5\n>>> print a b\n>> N 1 2\n>>> NN 1 2\n>>>  N\t100  16 \r\n>>> L -1 2\n"
                    ">>> L 100 4",
                    0);
    assert_int_equal(r.result, MT_END);
    assert_int_equal(r.count, 2);
    expect(&r, 0, MT_NEW, 0, 100, 16);
    expect(&r, 1, MT_LOAD, 0, 100, 4);
    reading_free(&r);
}

static void expect_wrong(const char *text, uint64_t line)
{
    struct reading r = read_string(text, 0);
    assert_int_equal(r.result, MT_ERROR);
    assert_int_equal(r.err.code, MT_E_CORRUPT);
    assert_int_equal(r.err.offset, line);
    reading_free(&r);
    r = read_string(text, MT_OPEN_SALVAGE | MT_OPEN_TEXT);
    assert_int_equal(r.result, MT_END);
    assert_int_equal(r.stats.damaged_chunks, 1);
    assert_true(strncmp(r.damage, "line ", 5) == 0);
    reading_free(&r);
}

static void test_wrong(void **state)
{
    expect_wrong(">>> N 100 16\n>>> L 100x 4\n", 2);
    expect_wrong("x\ny\n>>> L 100 4z\n", 3);
    expect_wrong(">>> R 100 16\n", 1);
    expect_wrong(">>> N 18446744073709551616 16\n", 1);
    expect_wrong(">>> N 99999999999999999999999 16\n", 1);
    expect_wrong(">>> N 18446744073709551615 2\n", 1);
}

static void test_nul_letter(void **state)
{
    struct reading r = read_bytes(">>> N 1 1\n>>> \0 1 1\n", 20, 0);
    assert_int_equal(r.err.code, MT_E_CORRUPT);
    assert_int_equal(r.count, 1);
    reading_free(&r);
}

static void test_numbers_at_the_limit(void **state)
{
    struct reading r = read_string(">>> N 0 18446744073709551615\n>>> L 18446744073709551614 1\n"
                                   ">>> L 18446744073709551615 1\n>>> N 18446744073709551615 1\n",
                                   0);
    assert_int_equal(r.count, 3);
    expect(&r, 1, MT_LOAD, 0, UINT64_MAX - 1, 1);
    expect(&r, 2, MT_NEW, 1, UINT64_MAX, 1);
    assert_int_equal(r.stats.unmatched_access, 1);
    reading_free(&r);
}

static void test_unmatched(void **state)
{
    struct reading r =
        read_string(">>> F 5 0\n>>> N 16 4\n>>> L 20 1\n>>> L 15 4\n>>> F 17 0\n>>> S 19 8\n", 0);
    assert_int_equal(r.count, 4);
    assert_int_equal(r.events[0].kind, MT_BADFREE);
    assert_int_equal(r.events[0].addr, 5);
    assert_int_equal(r.events[2].kind, MT_BADFREE);
    expect(&r, 3, MT_STORE, 0, 19, 8);
    assert_int_equal(r.stats.unmatched_free, 2);
    assert_int_equal(r.stats.unmatched_access, 2);
    reading_free(&r);
}

/* A New that overlaps live blocks: they are freed first, and the Frees are marked as implied. */
static void test_overlap(void **state)
{
    char text[20000] = "";
    for (int i = 0; i < 600; i++)
        sprintf(text + strlen(text), ">>> N %d 16\n", i * 16);
    strcat(text, ">>> N 0 9600\n>>> L 9599 1\n>>> N 0 0\n");
    struct reading r = read_string(text, 0);
    assert_int_equal(r.count, 600 + 600 + 1 + 1 + 2);
    for (size_t i = 600; i < 1200; i++) {
        assert_int_equal(r.events[i].kind, MT_FREE);
        assert_true(r.events[i].implied);
    }
    expect(&r, 1200, MT_NEW, 600, 0, 9600);
    expect(&r, 1201, MT_LOAD, 600, 9599, 1);
    expect(&r, 1203, MT_NEW, 601, 0, 0);
    assert_int_equal(r.stats.live_slots, 1);
    reading_free(&r);
}

static void test_not_a_trace(void **state)
{
    static const char *const texts[] = {"", "hello\nworld\n", ">>> \n", "\0\0\0\0 binary"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct reading r = read_bytes(texts[i], i == 3 ? 11 : strlen(texts[i]), 0);
        assert_int_equal(r.result, MT_ERROR);
        assert_int_equal(r.err.code, MT_E_FORMAT);
        r = read_bytes(texts[i], i == 3 ? 11 : strlen(texts[i]), MT_OPEN_TEXT);
        assert_int_equal(r.result, MT_END);
        assert_int_equal(r.count, 0);
    }
}

/* Lines longer than any buffer: other output is skipped, a trace line is an error. */
static void test_long_lines(void **state)
{
    size_t size = 3000000;
    char *text = malloc(size + 100);
    memset(text, 'x', size);
    strcpy(text + size, ">>> N 1 1\n>>> N 100 16\n>>> L 100 4\n");
    struct reading r = read_bytes(text, strlen(text), 0);
    assert_int_equal(r.result, MT_END);
    assert_int_equal(r.count, 2);
    reading_free(&r);
    memcpy(text, ">>> N 1 ", 8);
    r = read_bytes(text, strlen(text), 0);
    assert_int_equal(r.err.code, MT_E_CORRUPT);
    assert_int_equal(r.err.offset, 1);
    reading_free(&r);
    free(text);
}

/* Many lines, to cross every border of the input's buffer; plain, and in two zstd frames. */
static void test_large_and_zstd(void **state)
{
    enum { LINES = 100000 };
    char *text = malloc(LINES * 40);
    size_t size = (size_t)sprintf(text, ">>> N 1000000 4000000\n");
    for (int i = 0; i < LINES; i++)
        size += (size_t)sprintf(text + size, "%s>>> L %d %d\n", i % 7 ? "" : "noise in between\n",
                                1000000 + i * 37, i % 64);
    size_t room = ZSTD_compressBound(size) * 2, half = size / 2;
    uint8_t *packed = malloc(room);
    size_t n = ZSTD_compress(packed, room, text, half, 3);
    n += ZSTD_compress(packed + n, room - n, text + half, size - half, 3);
    struct reading plain = read_bytes(text, size, 0), zstd = read_bytes(packed, n, 0);
    assert_int_equal(plain.count, LINES + 1);
    assert_int_equal(zstd.result, MT_END);
    assert_int_equal(zstd.count, LINES + 1);
    for (size_t i = 1; i <= LINES; i++) {
        expect(&plain, i, MT_LOAD, 0, 1000000 + (i - 1) * 37, (i - 1) % 64);
        assert_true(same_event(&plain.events[i], &zstd.events[i]));
    }
    reading_free(&zstd);
    for (size_t cut = 5; cut < n; cut += n / 50) {
        zstd = read_bytes(packed, cut, MT_OPEN_TEXT);
        assert_true(zstd.result == MT_ERROR ? zstd.err.code == MT_E_TRUNCATED : zstd.count < LINES);
        reading_free(&zstd);
    }
    reading_free(&plain);
    free(packed);
    free(text);
}

static void on_alarm(int signal)
{
    (void)signal;
}

/* A process that writes a trace into a pipe after many signals have interrupted the reader. */
static pid_t write_late(const int to[2], const char *text)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        usleep(200000);
        _exit(write(to[1], text, strlen(text)) != (ssize_t)strlen(text));
    }
    close(to[1]);
    return child;
}

static void test_interrupted_reading(void **state)
{
    const struct itimerval often = {{0, 5000}, {0, 5000}}, never = {0};
    const struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART */
    int to[2], status;
    char path[40];
    assert_int_equal(pipe(to), 0);
    pid_t child = write_late(to, ">>> N 100 8\n>>> F 100 0\n");
    snprintf(path, sizeof path, "/proc/self/fd/%d", to[0]);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    struct mt_error err = {0};
    const struct mt_event *events;
    size_t n, count = 0;
    struct mt_reader *r = mt_open(path, MT_OPEN_TEXT, &err);
    while (r && mt_next(r, &events, &n) == MT_MORE)
        count += n;
    setitimer(ITIMER_REAL, &never, NULL);
    assert_int_equal(count, 2);
    mt_close(r);
    close(to[0]);
    while (waitpid(child, &status, 0) < 0)
        ;
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_numbers_at_the_limit),
        cmocka_unit_test(test_unmatched),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_not_a_trace),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_large_and_zstd),
        cmocka_unit_test(test_nul_letter),
        cmocka_unit_test(test_interrupted_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
