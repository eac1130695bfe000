/* test_old_versions.c - files that earlier programs wrote are read whole.
 *
 * The files in old/ were recorded: version1.ljt from a program of C, version2.ljt from another,
 * version2-lua.ljt from luajit, version3.ljt from a third of C. What programs between versions 2 and 3 wrote
 * is made here from a trace of today.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "support.h"

#include "memtrace/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct reading read_old(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/memtrace/test/old/%s", MEMTRACE_SOURCE, name);
    struct bytes file = file_bytes(path);
    struct reading got = read_bytes(file.data, file.size, 0);
    free(file.data);
    assert_int_equal(got.result, MT_END);
    assert_int_equal(got.stats.ending, MT_ENDING_EXIT);
    return got;
}

static void expect_totals(struct reading *got, const uint64_t expected[MT_KINDS])
{
    uint64_t seen[MT_KINDS] = {0};
    for (size_t i = 0; i < got->count; i++)
        seen[got->events[i].kind]++;
    for (unsigned kind = 0; kind < MT_KINDS; kind++) {
        assert_int_equal(got->stats.totals.events[kind], expected[kind]);
        assert_int_equal(seen[kind], expected[kind]);
    }
    reading_free(got);
}

/* 20 blocks stored to and loaded from once; 7 then resized, 13 freed. */
static void test_version_1(void **state)
{
    struct reading got = read_old("version1.ljt");
    (void)state;
    expect_totals(&got, (uint64_t[MT_KINDS]){
                            [MT_NEW] = 20, [MT_FREE] = 13, [MT_RESIZE] = 7, [MT_LOAD] = 20, [MT_STORE] = 20});
}

/* 20 blocks of 16 to 35 bytes filled and loaded from nine times; ten freed. */
static void test_version_2(void **state)
{
    struct reading got = read_old("version2.ljt");
    (void)state;
    expect_totals(&got,
                  (uint64_t[MT_KINDS]){[MT_NEW] = 20, [MT_FREE] = 10, [MT_LOAD] = 180, [MT_STORE] = 40});
}

/* Types and states, counted in MORE. */
static void test_version_2_lua(void **state)
{
    struct reading got = read_old("version2-lua.ljt");
    (void)state;
    expect_totals(&got,
                  (uint64_t[MT_KINDS]){
                      [MT_NEW] = 573, [MT_FREE] = 573, [MT_RESIZE] = 9, [MT_TYPE] = 570, [MT_STATE] = 97});
}

/* 20 blocks whose first nine bytes are each loaded and stored; ten freed, five resized. */
static void test_version_3(void **state)
{
    struct reading got = read_old("version3.ljt");
    (void)state;
    expect_totals(&got,
                  (uint64_t[MT_KINDS]){
                      [MT_NEW] = 20, [MT_FREE] = 10, [MT_RESIZE] = 5, [MT_LOAD] = 180, [MT_STORE] = 180});
}

/* -- the number of calls at the end of MORE ------------------------------------------------------ */

/* A trace with n calls, each of another line than the one before. */
static struct bytes trace_of_calls(unsigned n)
{
    struct bytes file = {0};
    uint8_t part[4096];
    ssize_t got;
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, NULL, NULL);
    for (unsigned i = 0; i < n; i++)
        mt_writer_call(w, mt_writer_frame(
                              w, &(struct mt_frame){.ip = 0x5000 + i, .line = 10 + i, .kind = MT_FRAME_LUA}));
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    for (off_t at = 0; (got = pread(fd, part, sizeof part, at)) > 0; at += got)
        append_bytes(&file, part, (size_t)got);
    close(fd);
    return file;
}

/* Cut the file before its END chunk, whose header is given. */
static void cut_end(struct bytes *file, struct chunk_header *h)
{
    size_t at = FILE_HEADER_SIZE;
    while (!chunk_header_unpack(h, file->data + at) && h->type != CHUNK_END)
        at += CHUNK_HEADER_SIZE + h->stored_size;
    assert_int_equal(h->type, CHUNK_END);
    file->size = at;
}

/* The END chunk as it was: MORE with the number of calls behind its fields. */
static void append_end(struct bytes *file, struct chunk_header h, unsigned calls)
{
    struct buffer b = {0};
    put_more(&b, &(struct rec_more){0});
    buffer_uvarint(&b, calls);
    put_end(&b, &(struct rec_end){.ending = MT_ENDING_EXIT});
    append_chunk(file, &h, &(struct bytes){b.data, buffer_size(&b)});
    buffer_free(&b);
}

/* 32 and 34 are codes of records that may stand there. */
static void test_calls_in_more(void **state)
{
    static const unsigned calls[] = {1, REC_END, REC_CALLS, 300};
    (void)state;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct chunk_header h;
        struct bytes file = trace_of_calls(calls[i]);
        cut_end(&file, &h);
        append_end(&file, h, calls[i]);
        struct reading got = read_bytes(file.data, file.size, 0);
        assert_int_equal(got.err.code, MT_E_CORRUPT); /* not in version 3 */
        reading_free(&got);
        store_u32(file.data + 8, 2);
        store_u32(file.data + 12, 0);
        got = read_bytes(file.data, file.size, 0);
        assert_int_equal(got.result, MT_END);
        expect_totals(&got, (uint64_t[MT_KINDS]){[MT_CALL] = calls[i]});
        free(file.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version_1),     cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_version_2_lua), cmocka_unit_test(test_version_3),
        cmocka_unit_test(test_calls_in_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
