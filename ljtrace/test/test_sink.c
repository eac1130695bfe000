/* test_sink.c - no trace replaces one that is being written, or one of an earlier image of its own process.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "ljtrace/collector/sink.h"
#include "memtrace/memtrace.h"

static const char s_process[] = "4242@17";
static const char s_beginning[] = "\x89LJT\r\n\x1a\n\1\0\0\0\xfe\xff\xff\xff"; /* of a trace that was cut */
static char s_folder[] = "/tmp/ljtrace-sink-XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(s_folder) == NULL || chdir(s_folder) != 0;
}

static int leave_folder(void **state)
{
    static const char *const names[] = {"t.ljt", "t.2.ljt", "t.3.ljt", "t.ljt.part"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
    return chdir("/") != 0 || rmdir(s_folder) != 0;
}

/* Write a complete trace of s_process. */
static void write_trace(const char *name)
{
    struct mt_error err;
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct mt_writer *w = mt_writer_new(fd, NULL, &err);
    assert_non_null(w);
    mt_writer_info(w, "process", s_process);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, &err), MT_OK);
    close(fd);
}

static off_t size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 ? st.st_size : -1;
}

static void a_file_being_written_is_left_alone(void **state)
{
    struct sink first, second;
    (void)state;
    assert_true(sink_open(&first, "t.ljt", false, false, s_process));
    assert_int_equal(write(first.fd, s_beginning, sizeof s_beginning), sizeof s_beginning);
    assert_false(sink_open(&second, "t.ljt", false, false, s_process));
    assert_int_equal(errno, EWOULDBLOCK);
    assert_int_equal(size_of("t.ljt"), sizeof s_beginning);
    assert_null(sink_close(&first));
    assert_true(sink_open(&second, "t.ljt", false, false, s_process));
    assert_int_equal(size_of("t.ljt"), 0);
    assert_null(sink_close(&second));
}

static void put_file(const char *text)
{
    int fd = open("t.ljt", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void other_files_are_left_alone(void **state)
{
    static const char *const others[] = {"print(1)\n", "# a comment\nx = 1\n", "\x7f\x45LF", " "};
    static const char *const ours[] = {"", "# ljtrace: process 1@2\n", ">>> N 1000 10\n"};
    struct sink s;
    (void)state;
    for (size_t i = 0; i < 2 * sizeof others / sizeof *others; i++) {
        const char *text = others[i / 2];
        put_file(text);
        assert_false(sink_open(&s, "t.ljt", false, i % 2, s_process));
        assert_int_equal(errno, EEXIST);
        assert_int_equal(size_of("t.ljt"), strlen(text));
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        put_file(ours[i]);
        assert_true(sink_open(&s, "t.ljt", false, false, s_process));
        assert_null(sink_close(&s));
    }
}

static void devices_have_many_writers(void **state)
{
    struct sink first, second;
    (void)state;
    assert_true(sink_open(&first, "/dev/null", false, false, s_process));
    assert_true(sink_open(&second, "/dev/null", false, false, s_process));
    assert_null(sink_close(&second));
    assert_null(sink_close(&first));
}

static void publish_draft(const char *process)
{
    struct sink s;
    assert_true(sink_open(&s, "t.ljt", false, true, process));
    assert_int_equal(write(s.fd, s_beginning, sizeof s_beginning), sizeof s_beginning);
    assert_true(sink_publish(&s, process));
    assert_null(sink_close(&s));
    assert_int_equal(size_of("t.ljt.part"), -1);
}

/* A later image may have begun its file before the child's draft gets its name. */
static void drafts_never_replace_a_trace_of_their_own_process(void **state)
{
    (void)state;
    write_trace("t.ljt");
    write_trace("t.2.ljt");
    publish_draft(s_process);
    assert_true(sink_is_of("t.ljt", s_process) && sink_is_of("t.2.ljt", s_process));
    assert_int_equal(size_of("t.3.ljt"), sizeof s_beginning);
    publish_draft("4242@18");
    assert_int_equal(size_of("t.ljt"), sizeof s_beginning);
}

/* Make a child of this process, which ends at once. */
static void end_a_child(void)
{
    siginfo_t info;
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) != 0)
        assert_int_equal(errno, EINTR);
}

/* Collectors of forked children do not remain as zombies, and are not mistaken for readers of the output. */
static void ended_children_are_reaped(void **state)
{
    struct sink s;
    siginfo_t info;
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        assert_true(sink_open(&s, fails ? "|exit 5" : "|exit 0", false, false, s_process));
        end_a_child();
        while (waitid(P_PID, (id_t)s.child[0], &info, WEXITED | WNOWAIT) != 0)
            assert_int_equal(errno, EINTR);
        sink_reap(&s);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
        assert_int_equal(sink_close(&s) != NULL, fails);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_being_written_is_left_alone),
        cmocka_unit_test(other_files_are_left_alone),
        cmocka_unit_test(devices_have_many_writers),
        cmocka_unit_test(drafts_never_replace_a_trace_of_their_own_process),
        cmocka_unit_test(ended_children_are_reaped),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
