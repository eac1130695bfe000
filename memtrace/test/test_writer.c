/* test_writer.c - the bytes of a small trace, the dump, definitions, limits and failures of the writer.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/format/predictor.h"
#include "memtrace/format/records.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

static struct mt_writer *new_writer(int fd, uint32_t chunk_events)
{
    struct mt_error err = {0};
    struct mt_writer *w = mt_writer_new(fd, &(struct mt_writer_options){.chunk_events = chunk_events}, &err);
    assert_non_null(w);
    return w;
}

/* One block, six loads 8 bytes apart and a store, then the block's end. */
static struct bytes small_trace(void)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, 0);
    uint32_t name = mt_writer_string(w, "main", 4);
    uint32_t frame = mt_writer_frame(w, &(struct mt_frame){.ip = 0x400, .function = name, .line = 7});
    uint32_t stack = mt_writer_stack(w, 0, frame);
    uint32_t load =
        mt_writer_site(w, &(struct mt_site){.ip = 0x410, .frame = frame, .size = 8, .kind = MT_LOAD});
    uint32_t store =
        mt_writer_site(w, &(struct mt_site){.ip = 0x414, .frame = frame, .size = 4, .kind = MT_STORE});
    uint32_t sites[] = {load, load, load, load, load, load, store, store};
    uint64_t addrs[] = {0x1000, 0x1008, 0x1010, 0x1018, 0x1020, 0x1028, 0x1002, 0x1050};
    mt_writer_time(w, 50);
    mt_writer_block_new(w, 0x1000, 80, 0, MT_HOW_CALLOC, stack);
    mt_writer_accesses(w, sites, addrs, 8);
    mt_writer_time(w, 60);
    mt_writer_thread(w, 2);
    mt_writer_block_free(w, 0x1000, 0, stack);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    close(fd);
    return file;
}

static const uint8_t *check_stream(const uint8_t *payload, unsigned i, const uint8_t *data, const void *bytes,
                                   size_t n)
{
    uint8_t out[200];
    uint32_t raw = load_u32(payload + 8 * i), stored = load_u32(payload + 8 * i + 4);
    assert_int_equal(raw, n);
    if (raw)
        assert_int_equal(ZSTD_decompress(out, sizeof out, data, stored), raw);
    assert_memory_equal(out, bytes, n);
    return data + stored;
}

/* The whole encoding, byte for byte. A change here requires a new MT_FORMAT_VERSION. */
static void test_literal_bytes(void **state)
{
    static const uint8_t defs[] = {1, 1, 1, 1, 1, 1, 0, 2,    4, 'm', 'a', 'i', 'n', 3, 0x80, 16, 1,
                                   0, 0, 7, 4, 0, 1, 5, 0x20, 1, 8,   3,   5,   8,   1, 4,    4};
    /* rare New; load misses its segment and finds the new block; misses it again (it did not follow itself
       yet) and the offset 8, inside the guessed block; four hits from there, eight bytes on from the word
       before; store misses segment and offset; rare thread, rare free, rare stop */
    static const uint8_t tokens[] = {0, 1, 3, 4 << 3 | 3, 0, 0, 0};
    static const uint8_t segments[] = {1 + 3, 1 + 3, 1 + 5};
    static const uint8_t codes[] = {WORD_INSIDE, WORD_INSIDE};
    static const uint8_t offsets[] = {8, 2};
    static const uint8_t rare[] = {16, 50, 0, 0x80, 0x40, 80, 0, 1, 1, 19, 2, 17, 10, 0, 0, 1, 23};
    struct bytes file = small_trace();
    const uint8_t *p = file.data;
    struct chunk_header h;
    assert_memory_equal(p, "\x89LJT\r\n\x1a\n\2\0\0\0\xfd\xff\xff\xff", 16);
    assert_null(chunk_header_unpack(&h, p += 16));
    assert_int_equal(h.type, CHUNK_DEFS);
    check_stream(p + 72, 0, p + 80, defs, sizeof defs);
    assert_null(chunk_header_unpack(&h, p += 72 + h.stored_size));
    assert_int_equal(h.type, CHUNK_EVENTS);
    assert_int_equal(h.events, 9);
    assert_int_equal(h.instructions, 0);
    const uint8_t *payload = p + 72, *data = payload + 8 * EVENT_STREAMS;
    data = check_stream(payload, STREAM_TOKENS, data, tokens, sizeof tokens);
    data = check_stream(payload, STREAM_SEGMENTS, data, segments, sizeof segments);
    data = check_stream(payload, STREAM_SLOTS, data, "", 0);
    data = check_stream(payload, STREAM_OFFSETS, data, offsets, sizeof offsets);
    data = check_stream(payload, STREAM_RARE, data, rare, sizeof rare);
    data = check_stream(payload, STREAM_CODES, data, codes, sizeof codes);
    check_stream(payload, STREAM_AGES, data, "", 0);
    assert_null(chunk_header_unpack(&h, p += 72 + h.stored_size));
    assert_int_equal(h.type, CHUNK_SURVIVORS);
    check_stream(p + 72, 0, p + 80, (const uint8_t *)"\0", 1); /* nothing is left */
    free(file.data);
}

static void collect(void *ctx, const char *line)
{
    struct bytes *b = ctx;
    append_bytes(b, line, strlen(line));
    append_bytes(b, "\n", 1);
}

static void test_dump(void **state)
{
    static const char expected[] =
        "string id=1 text=\"main\"\n"
        "frame id=1 ip=0x400 function=1 file=0 object=0 line=7\n"
        "stack id=1 parent=0 frame=1\n"
        "site id=1 ip=0x410 frame=1 size=8 kind=load\n"
        "site id=2 ip=0x414 frame=1 size=4 kind=store\n"
        "new handle=0 addr=0x1000 size=80 how=calloc heap=0 stack=1 thread=1 time=50\n"
        "load handle=0 addr=0x1000 size=8 offset=0 site=1 thread=1 time=50\n"
        "load handle=0 addr=0x1008 size=8 offset=8 site=1 thread=1 time=50\n"
        "load handle=0 addr=0x1010 size=8 offset=16 site=1 thread=1 time=50\n"
        "load handle=0 addr=0x1018 size=8 offset=24 site=1 thread=1 time=50\n"
        "load handle=0 addr=0x1020 size=8 offset=32 site=1 thread=1 time=50\n"
        "load handle=0 addr=0x1028 size=8 offset=40 site=1 thread=1 time=50\n"
        "store handle=0 addr=0x1002 size=4 offset=2 site=2 thread=1 time=50\n"
        "free handle=0 addr=0x1000 size=80 heap=0 stack=1 thread=2 time=60\n"
        "end ending=exit";
    static const unsigned counts[MT_KINDS] = {[MT_NEW] = 1, [MT_FREE] = 1, [MT_LOAD] = 6, [MT_STORE] = 1};
    struct bytes file = small_trace(), text = {0}, all = {0};
    int fd = memory_file(file.data, file.size);
    struct mt_error err = {0};
    assert_int_equal(mt_dump(memory_path(fd), 0, collect, &text, &err), MT_END);
    append_bytes(&all, expected, strlen(expected));
    for (unsigned kind = 0; kind < MT_KINDS; kind++) {
        char count[40];
        append_bytes(&all, count,
                     (size_t)snprintf(count, sizeof count, " %s=%u", mt_kind_name(kind), counts[kind]));
    }
    append_bytes(&all, " instructions=60 ", 18);
    assert_true(text.size > all.size);
    text.data[all.size - 1] = 0; /* wall-clock time and what follows differ */
    assert_string_equal((char *)text.data, (char *)all.data);
    free(all.data);
    assert_int_equal(mt_dump("/nonexistent", 0, collect, &text, &err), MT_ERROR);
    assert_int_equal(err.code, MT_E_IO);
    close(fd);
    free(text.data);
    free(file.data);
}

/* Definitions of a trace that was read can be looked up. */
static void test_definitions(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, 0);
    char longest[70000];
    memset(longest, 'x', sizeof longest);
    mt_writer_info(w, "command", "a b");
    mt_writer_info(w, "pid", "17");
    uint32_t cut = mt_writer_string(w, longest, sizeof longest);
    uint32_t nul = mt_writer_string(w, "ab\0cd", 5);
    mt_writer_heap(w, &(struct mt_heap){.id = 0xabc, .kind = MT_HEAP_LUA});
    mt_writer_frame(w, &(struct mt_frame){.ip = 1, .function = 999}); /* no such string */
    mt_writer_stack(w, 55, 66);                                       /* no such stack, no such frame */
    mt_writer_finish(w, MT_ENDING_EXEC, NULL);
    const struct mt_event *events;
    size_t n;
    struct mt_error err = {0};
    struct mt_reader *r = mt_open(memory_path(fd), 0, &err);
    assert_non_null(r);
    const char *before = mt_string(r, 0);
    assert_int_equal(mt_next(r, &events, &n), MT_END);
    assert_string_equal(before, "");
    assert_string_equal(mt_info(r, "command"), "a b");
    assert_string_equal(mt_info(r, "pid"), "17");
    assert_string_equal(mt_info(r, "none"), "");
    assert_int_equal(strlen(mt_string(r, cut)), 65535);
    assert_string_equal(mt_string(r, nul), "ab");
    assert_string_equal(mt_string(r, 12345), "");
    assert_int_equal(mt_heap(r, 1)->id, 0xabc);
    assert_null(mt_heap(r, 2));
    assert_int_equal(mt_frame(r, 1)->function, 0);
    assert_int_equal(mt_stack(r, 1)->parent, 0);
    assert_int_equal(mt_count_stacks(r), 2);
    mt_close(r);
    close(fd);
}

/* Enough definitions for several DEFS chunks, with pointers given out early. */
static void test_many_definitions(void **state)
{
    enum { COUNT = 600000 };
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, 0);
    for (uint32_t i = 1; i < COUNT; i++) {
        char text[20];
        size_t len = (size_t)snprintf(text, sizeof text, "string %u", i);
        assert_int_equal(mt_writer_string(w, text, len), i);
        assert_int_equal(mt_writer_stack(w, i - 1, 0), i);
    }
    assert_int_equal(mt_writer_string(w, "string 77", 9), 77);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct mt_error err = {0};
    const struct mt_event *events;
    size_t n;
    struct mt_reader *r = mt_open(memory_path(fd), 0, &err);
    assert_int_equal(mt_next(r, &events, &n), MT_END);
    assert_int_equal(mt_count_strings(r), COUNT);
    assert_string_equal(mt_string(r, COUNT - 1), "string 599999");
    assert_int_equal(mt_stack(r, COUNT - 1)->parent, COUNT - 2);
    mt_close(r);
    close(fd);
}

/* Accesses of undefined sites are dropped and counted; those outside blocks are foreign. */
static void test_strange_accesses(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, 0);
    struct mt_totals totals;
    uint32_t site = mt_writer_site(w, &(struct mt_site){.size = 1, .kind = MT_MODIFY});
    uint32_t sites[] = {0, site + 1, UINT32_MAX, site, site, site};
    uint64_t addrs[] = {100, 100, 100, 100, 116, 99};
    mt_writer_block_new(w, 100, 16, 0, MT_HOW_MALLOC, 0);
    mt_writer_accesses(w, sites, addrs, 6);
    mt_writer_totals(w, &totals);
    assert_int_equal(totals.dropped, 3);
    assert_int_equal(totals.foreign, 2);
    assert_int_equal(totals.events[MT_MODIFY], 1);
    mt_writer_finish(w, MT_ENDING_EXIT, NULL);
    close(fd);
}

static void test_heap_free(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, 0);
    uint32_t lua = mt_writer_heap(w, &(struct mt_heap){.id = 1, .kind = MT_HEAP_LUA});
    for (uint64_t i = 0; i < 10; i++)
        mt_writer_block_new(w, 0x100 * i, 16, i % 2 ? lua : 0, MT_HOW_LUA, 0);
    mt_writer_heap_free(w, lua, 0);
    mt_writer_finish(w, MT_ENDING_EXIT, NULL);
    struct bytes file = memory_bytes(fd);
    struct reading r = read_bytes(file.data, file.size, 0);
    assert_int_equal(r.count, 15);
    assert_int_equal(r.stats.live_slots, 5);
    for (size_t i = 10; i < 15; i++) {
        assert_int_equal(r.events[i].kind, MT_FREE);
        assert_int_equal(r.events[i].heap, lua);
    }
    reading_free(&r);
    free(file.data);
    close(fd);
}

/* The writer cannot know what happened in a gap, so nothing that follows from it is an error of the program or counts as
 * dropped twice: frees of unknown blocks, within blocks from before, of the same address by another function; and a New
 * in the place of such a block. What begins and ends after the gap is judged as before. */
/* Events that say nothing of a block; those of other kinds are refused, and ids that are not defined become 0. */
static void test_plain_events(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, 0);
    const uint32_t name = mt_writer_string(w, "x", 1);
    assert_false(mt_writer_event(w, &(struct mt_event){.kind = MT_NEW, .ref = 0, .size = 8}));
    assert_false(mt_writer_event(w, &(struct mt_event){.kind = MT_KINDS}));
    assert_true(mt_writer_event(w, &(struct mt_event){.kind = MT_MARK, .ref = name}));
    assert_true(mt_writer_event(w, &(struct mt_event){.kind = MT_MARK, .ref = name + 1}));
    assert_true(mt_writer_event(w, &(struct mt_event){.kind = MT_CALL, .ref = 9}));
    assert_true(mt_writer_event(w, &(struct mt_event){.kind = MT_LOST, .ref = name, .size = 5}));
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    struct reading r = read_bytes(file.data, file.size, 0);
    static const uint8_t kinds[] = {MT_MARK, MT_MARK, MT_CALL, MT_LOST};
    assert_int_equal(r.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(r.events[i].kind, kinds[i]);
        assert_int_equal(r.events[i].ref, i == 0 || i == 3 ? name : 0);
    }
    assert_int_equal(r.events[3].size, 5);
    reading_free(&r);
    free(file.data);
    close(fd);
}

static void test_gap(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, 0);
    struct mt_totals totals;
    mt_writer_block_new(w, 0x1000, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_new(w, 0x2000, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_new(w, 0x3000, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_free(w, 0x3000, 0, 0);
    mt_writer_gap(w, 5, mt_writer_string(w, "full", 4));
    mt_writer_block_free(w, 0x4000, 0, 0); /* made in the gap */
    mt_writer_block_resize(w, 0x4000, 0x5000, 8, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_free(w, 0x1010, 0, 0);                    /* the block at 0x1000 has ended */
    mt_writer_block_free(w, 0x3000, 0, 0);                    /* made again in the gap */
    mt_writer_block_new(w, 0x1010, 8, 0, MT_HOW_MALLOC, 0);   /* frees the block at 0x1000 */
    mt_writer_block_free_as(w, 0x2000, 0, MT_HOW_CXX_NEW, 0); /* another block than before */
    mt_writer_totals(w, &totals);
    assert_int_equal(totals.events[MT_BADFREE], 0);
    assert_int_equal(totals.dropped, 5);
    assert_int_equal(mt_writer_orphans(w), 4);
    assert_int_equal(mt_writer_older(w), 0);
    mt_writer_block_free(w, 0x1014, 0, 0);
    mt_writer_block_free_as(w, 0x1010, 0, MT_HOW_CXX_NEW, 0);
    mt_writer_block_free(w, 0x1010, 0, 0);
    struct reading r = finish_trace(w, fd);
    static const uint8_t kinds[] = {MT_NEW, MT_NEW,  MT_NEW,     MT_FREE,    MT_LOST, MT_FREE,
                                    MT_NEW, MT_FREE, MT_BADFREE, MT_BADFREE, MT_FREE, MT_BADFREE};
    assert_int_equal(r.count, sizeof kinds);
    for (size_t i = 0; i < r.count; i++)
        assert_int_equal(r.events[i].kind, kinds[i]);
    assert_int_equal(r.events[4].size, 5);
    assert_true(r.events[5].implied);
    reading_free(&r);
}

/* Events of one chunk after another reach the file on flush, before the end. */
static void test_flush(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = new_writer(fd, 0);
    mt_writer_block_new(w, 64, 16, 0, MT_HOW_MALLOC, 0);
    assert_int_equal(mt_writer_flush(w), MT_OK);
    assert_int_equal(mt_writer_flush(w), MT_OK);
    struct bytes file = memory_bytes(fd);
    assert_int_equal(file.size, mt_writer_bytes(w));
    struct reading r = read_bytes(file.data, file.size, 0);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.err.code, MT_E_TRUNCATED);
    reading_free(&r);
    free(file.data);
    mt_writer_finish(w, MT_ENDING_EXIT, NULL);
    close(fd);
}

/* A full disk: one error is kept; later events are accepted and counted as dropped. */
static void test_disk_full(void **state)
{
    struct mt_error err = {0};
    int fd = open("/dev/full", O_WRONLY);
    assert_null(mt_writer_new(fd, NULL, &err));
    assert_int_equal(err.code, MT_E_IO);
    assert_non_null(strstr(err.text, strerror(ENOSPC)));
    close(fd);
}

static void test_writing_fails_later(void **state)
{
    int ends[2];
    struct mt_totals totals;
    struct mt_error err = {0};
    assert_int_equal(pipe(ends), 0);
    struct mt_writer *w = new_writer(ends[1], 10);
    close(ends[1]);
    for (uint64_t i = 0; i < 100; i++)
        mt_writer_block_new(w, 64 * i, 16, 0, MT_HOW_MALLOC, 0);
    assert_int_equal(mt_writer_error(w)->code, MT_E_IO);
    assert_int_equal(mt_writer_flush(w), MT_ERROR);
    mt_writer_totals(w, &totals);
    assert_int_equal(totals.dropped, 100);
    assert_int_equal(mt_writer_string(w, "x", 1), 0);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, &err), MT_ERROR);
    assert_int_equal(err.code, MT_E_IO);
    close(ends[0]);
}

/* Through a pipe, in small pieces. */
static void *feed(void *arg)
{
    struct bytes file = small_trace();
    int fd = *(int *)arg;
    for (size_t i = 0; i < file.size; i += 7) {
        size_t n = file.size - i < 7 ? file.size - i : 7;
        if (write(fd, file.data + i, n) != (ssize_t)n)
            break;
    }
    close(fd);
    free(file.data);
    return NULL;
}

static void test_pipe(void **state)
{
    int ends[2];
    char path[40];
    pthread_t thread;
    size_t n, count = 0;
    int result;
    const struct mt_event *events;
    struct mt_error err = {0};
    assert_int_equal(pipe(ends), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    assert_int_equal(pthread_create(&thread, NULL, feed, &ends[1]), 0);
    struct mt_reader *r = mt_open(path, 0, &err);
    assert_non_null(r);
    while ((result = mt_next(r, &events, &n)) == MT_MORE)
        count += n;
    assert_int_equal(result, MT_END);
    assert_int_equal(count, 9);
    mt_close(r);
    pthread_join(thread, NULL);
    close(ends[0]);
}

static void test_names(void **state)
{
    assert_string_equal(mt_kind_name(MT_BADFREE), "badfree");
    assert_string_equal(mt_kind_name(MT_KINDS), "?");
    assert_int_equal(mt_kind_letter(MT_MODIFY), 'M');
    assert_int_equal(mt_kind_letter(MT_MARK), '?');
    assert_string_equal(mt_how_name(MT_HOW_CUSTOM), "custom");
    assert_string_equal(mt_heap_kind_name(MT_HEAP_CUSTOM), "custom");
    assert_string_equal(mt_ending_name(MT_ENDING_STOPPED), "stopped");
}

/* The parent of stack i in test_equal_stacks: chains, and parents with many stacks. */
static uint32_t parent_of(uint32_t i)
{
    return i % 3 ? i - 1 : i / 7 * 3;
}

/* Equal stacks have one id, the first of a parent like the others. */
static void test_equal_stacks(void **state)
{
    enum { COUNT = 30000, FRAMES = 100 };
    struct mt_writer *w = new_writer(memory_file("", 0), 0);
    for (uint32_t i = 1; i < COUNT + FRAMES; i++)
        mt_writer_frame(w, &(struct mt_frame){.ip = i});
    for (uint32_t i = 1; i < COUNT; i++)
        assert_int_equal(mt_writer_stack(w, parent_of(i), i), i);
    for (uint32_t i = 1; i < COUNT; i++)
        assert_int_equal(mt_writer_stack(w, parent_of(i), i), i);
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < FRAMES; i++)
            assert_int_equal(mt_writer_stack(w, 5, COUNT + i), COUNT + i);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
}

/* A system call's access beside a block is an error of the program; one to no block at all is only counted. */
static void test_system_calls_beside_blocks(void **state)
{
    const struct mt_writer_options options = {.beside = 16};
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, &options, NULL);
    mt_writer_block_new(w, 0x1000, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_touch(w, MT_LOAD, 0x1040, 4);
    mt_writer_touch(w, MT_STORE, 0x9000, 4);
    struct reading got = finish_trace(w, fd);
    assert_int_equal(got.count, 2);
    assert_true(got.events[1].kind == MT_LOAD && got.events[1].beyond && got.events[1].freed);
    assert_int_equal(got.events[1].addr, 0x1040);
    assert_int_equal(got.events[1].offset, 64);
    assert_int_equal(got.stats.totals.freed, 1);
    assert_int_equal(got.stats.totals.foreign, 1);
    reading_free(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_stacks),
        cmocka_unit_test(test_literal_bytes),
        cmocka_unit_test(test_dump),
        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_many_definitions),
        cmocka_unit_test(test_strange_accesses),
        cmocka_unit_test(test_heap_free),
        cmocka_unit_test(test_flush),
        cmocka_unit_test(test_plain_events),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_disk_full),
        cmocka_unit_test(test_writing_fails_later),
        cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_system_calls_beside_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
