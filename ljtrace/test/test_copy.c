/* test_copy.c - a snapshot that a copy of the program sends is read if it is complete, and else given up.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/test/feed_session.h"
#include "ljtrace/collector/copy.h"
#include "ljtrace/protocol/copies.h"
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

/* Put the records of a snapshot of two objects. */
static void put_snapshot(struct session *s)
{
    PUT(s, RAW_SNAPSHOT, 0, 0x88, 5, 300, 100, 1, 'u');
    PUT(s, RAW_OBJECT, MT_TYPE_TAB | 1 << 9, 0x1000, 120, 0);
    PUT(s, RAW_OBJECT, MT_TYPE_CDATA, 0x2000, 80, 0);
    PUT(s, RAW_LINKS, 0, 0x1000, 0x2000, MT_LINK_OTHER);
    PUT(s, RAW_SNAPSHOT_END, 0, 0);
}

static void send_bytes(int fd, const void *at, size_t n)
{
    assert_int_equal(write(fd, at, n), n);
}

static void send_part(int fd, const void *at, uint32_t n)
{
    send_bytes(fd, &n, sizeof n);
    send_bytes(fd, at, n);
}

/* How many snapshots are in the file. What was sent has to be read, as `good` says. */
static uint32_t snapshots_read(struct session *s, int pair[2], bool good)
{
    struct mt_error err = {0};
    const struct mt_event *batch;
    char path[64];
    size_t n;
    close(pair[1]);
    assert_int_equal(copy_read(pair[0], s->feed), good);
    close(pair[0]);
    if (!good)
        feed_drop_snapshot(s->feed);
    s->used = 0;
    PUT(s, RAW_MARK, 0, 9, 1, 'm'); /* the recording goes on */
    read_back(s);
    mt_close(s->reader);
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->fd);
    s->reader = mt_open(path, MT_OPEN_SNAPSHOTS, &err);
    while (mt_next(s->reader, &batch, &n) == MT_MORE)
        ;
    assert_true(s->events == 1 && s->event[0].kind == MT_MARK);
    return mt_count_snapshots(s->reader);
}

static void begin(struct session *s, int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    put_snapshot(s);
}

static void parts_are_joined(void **state)
{
    struct session *s = *state;
    int pair[2];
    const uint32_t head = (1 + 6) * sizeof(uint64_t); /* of the record SNAPSHOT */
    begin(s, pair);
    send_part(pair[1], s->slab, head);
    send_part(pair[1], s->slab + head, (uint32_t)(s->used - head));
    send_part(pair[1], s->slab, 0);
    assert_int_equal(snapshots_read(s, pair, true), 1);
    const struct mt_snapshot *u = mt_snapshot(s->reader, 0);
    assert_true(u->n_objects == 2 && u->n_links == 1 && u->total == 300 && u->objects[1].size == 80);
}

static void one_that_ends_early_is_given_up(void **state)
{
    struct session *s = *state;
    int pair[2];
    begin(s, pair);
    send_part(pair[1], s->slab, (uint32_t)s->used - sizeof(uint64_t)); /* without its end */
    assert_int_equal(snapshots_read(s, pair, false), 0);
}

static void one_that_is_cut_is_given_up(void **state)
{
    struct session *s = *state;
    int pair[2];
    begin(s, pair);
    const uint32_t n = (uint32_t)s->used;
    send_bytes(pair[1], &n, sizeof n);
    send_bytes(pair[1], s->slab, s->used / 2);
    assert_int_equal(snapshots_read(s, pair, false), 0);
}

static void wrong_sizes_and_records_are_refused(void **state)
{
    struct session *s = *state;
    int pair[2];
    begin(s, pair);
    const uint32_t too_large = COPY_PART_BYTES + 1;
    send_bytes(pair[1], &too_large, sizeof too_large);
    assert_int_equal(copy_read(pair[0], s->feed), false);
    close(pair[0]);
    close(pair[1]);
    s->used = 0;
    begin(s, pair);
    send_part(pair[1], s->slab, (uint32_t)s->used - 4); /* a record that goes beyond the part */
    send_part(pair[1], s->slab, 0);
    assert_int_equal(snapshots_read(s, pair, false), 0);
}

/* Pages of a process that are resident; 0 = its memory is gone. */
static long resident_pages(pid_t process)
{
    char path[64];
    long all = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", process);
    FILE *file = fopen(path, "re");
    assert_true(file && fscanf(file, "%ld %ld", &all, &resident) == 2);
    fclose(file);
    return resident;
}

static void its_memory_is_gone_after_the_wait(void **state)
{
    int pair[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    const pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        const struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
        _exit(0);
    }
    close(pair[1]);
    assert_true(resident_pages(child) > 0);
    copy_wait_for_end(pair[0]);
    assert_int_equal(resident_pages(child), 0);
    close(pair[0]);
    waitpid(child, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_are_joined, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_ends_early_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_cut_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_sizes_and_records_are_refused, setup, teardown),
        cmocka_unit_test(its_memory_is_gone_after_the_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
