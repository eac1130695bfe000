/* test_seek.c - CHECKPOINT chunks: reading from the middle, in any parts, and continuing after lost chunks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/format/chunk.h"
#include "memtrace/format/records.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

enum { CHUNK = 50 };

static struct mt_reader *open_file(int fd, unsigned flags, const struct mt_seek_point **points, uint32_t *n)
{
    struct mt_reader *r = mt_open(memory_path(fd), flags | MT_OPEN_FREED, NULL);
    assert_non_null(r);
    assert_int_equal(mt_seek_points(r, points, n), MT_OK);
    return r;
}

/* The part of a reader's file from one point to another is that of the whole file. */
static void check_part(struct mt_reader *r, const struct reading *whole, const struct mt_seek_point *points,
                       uint32_t n, uint32_t first, uint32_t end)
{
    const struct mt_event *events;
    size_t count, at = points[first].event, stop = end < n ? points[end].event : whole->count;
    int result;
    assert_int_equal(mt_read_range(r, first, end), MT_OK);
    while ((result = mt_next(r, &events, &count)) == MT_MORE)
        for (size_t i = 0; i < count; i++, at++)
            assert_true(at < stop && same_event(&events[i], &whole->events[at]));
    assert_int_equal(result, MT_END);
    assert_int_equal(at, stop);
}

static void test_every_part(void **state)
{
    struct bytes file =
        simple_trace(1, (struct mt_writer_options){.chunk_events = 50, .checkpoint_interval = 2});
    struct reading whole = read_bytes(file.data, file.size, MT_OPEN_FREED);
    const struct mt_seek_point *points;
    uint32_t n;
    int fd = memory_file(file.data, file.size);
    struct mt_reader *all = open_file(fd, 0, &points, &n);
    assert_int_equal(whole.result, MT_END);
    assert_true(n > 10);
    for (uint32_t first = 0; first < n; first++)
        for (uint32_t end = n; end > first; end--) {
            const struct mt_seek_point *own;
            struct mt_reader *r = open_file(fd, 0, &own, &n);
            check_part(r, &whole, own, n, first, end);
            mt_close(r);
            check_part(all, &whole, points, n, n - end, n - first); /* forwards and backwards in one reader */
        }
    mt_close(all);
    reading_free(&whole);
    free(file.data);
    close(fd);
}

/* The blocks that are live at the beginning of a part, according to the events before it. */
static void check_live(struct mt_reader *r, const struct mt_event *before, size_t n)
{
    static struct mt_event by_slot[2 * ADDRESSES];
    struct mt_live_block b;
    mt_read_checkpoint(r);
    memset(by_slot, 0, sizeof by_slot);
    for (size_t i = 0; i < n; i++)
        if (before[i].kind <= MT_RESIZE) {
            assert_true(before[i].slot < 2 * ADDRESSES);
            by_slot[before[i].slot] = before[i];
            by_slot[before[i].slot].thread = before[i].kind != MT_FREE;
        }
    for (uint32_t slot = 0; slot < 2 * ADDRESSES; slot++) {
        const struct mt_event *e = &by_slot[slot];
        assert_int_equal(mt_live_block(r, slot, &b), e->thread != 0);
        if (e->thread)
            assert_true(b.handle == e->handle && b.addr == e->addr && b.size == e->size && b.slot == slot);
    }
}

static void test_live_blocks(void **state)
{
    struct bytes file =
        simple_trace(6, (struct mt_writer_options){.chunk_events = 50, .checkpoint_interval = 2});
    struct reading whole = read_bytes(file.data, file.size, MT_OPEN_FREED);
    const struct mt_seek_point *points;
    uint32_t n;
    int fd = memory_file(file.data, file.size);
    struct mt_reader *r = open_file(fd, 0, &points, &n);
    for (uint32_t first = 0; first < n; first++) {
        const struct mt_event *events;
        size_t count, at = points[first].event;
        assert_int_equal(mt_read_range(r, first, n), MT_OK);
        check_live(r, whole.events, at);
        assert_int_equal(mt_next(r, &events, &count), at < whole.count ? MT_MORE : MT_END); /* none is lost */
        assert_true(at == whole.count || same_event(&events[0], &whole.events[at]));
    }
    mt_close(r);
    reading_free(&whole);
    free(file.data);
    close(fd);
}

/* Files with only the first seek point, and invalid ranges. */
static void check_one_part(const void *data, size_t size)
{
    const struct mt_seek_point *points;
    const struct mt_event *events;
    uint32_t n;
    size_t count;
    int fd = memory_file(data, size);
    struct mt_reader *r = open_file(fd, 0, &points, &n);
    assert_int_equal(n, 1);
    assert_int_equal(mt_read_range(r, 0, 1), MT_OK);
    assert_int_equal(mt_next(r, &events, &count), MT_MORE);
    assert_int_equal(mt_read_range(r, 0, 1), MT_ERROR);
    assert_non_null(strstr(mt_reader_error(r)->text, "cannot go back"));
    mt_close(r);
    r = open_file(fd, 0, &points, &n);
    assert_int_equal(mt_read_range(r, 1, 1), MT_ERROR);
    mt_close(r);
    close(fd);
}

static void test_one_part(void **state)
{
    static uint8_t packed[1 << 20];
    struct bytes file =
        simple_trace(2, (struct mt_writer_options){.chunk_events = 50, .checkpoint_interval = 1});
    size_t size = ZSTD_compress(packed, sizeof packed, file.data, file.size, 1);
    assert_false(ZSTD_isError(size));
    check_one_part(packed, size);
    check_one_part(">>> N 16 8\n", 11);
    free(file.data);
}

/* A chunk is destroyed: everything after the next point is delivered, with the right blocks. */
static void check_without(struct bytes *file, size_t chunk, const struct reading *whole, uint64_t next)
{
    file->data[chunk + CHUNK_HEADER_SIZE] ^= 0xff;
    struct reading got = read_bytes(file->data, file->size, MT_OPEN_SALVAGE | MT_OPEN_FREED);
    size_t rest = whole->count - next;
    assert_int_equal(got.result, MT_END);
    assert_int_equal(got.stats.damaged_chunks, 1);
    assert_true(got.count >= rest);
    for (size_t k = 1; k <= rest; k++)
        assert_true(same_event(&got.events[got.count - k], &whole->events[whole->count - k]));
    reading_free(&got);
    file->data[chunk + CHUNK_HEADER_SIZE] ^= 0xff;
}

static void test_salvage_goes_on(void **state)
{
    struct bytes file =
        simple_trace(3, (struct mt_writer_options){.chunk_events = 50, .checkpoint_interval = 3});
    struct reading whole = read_bytes(file.data, file.size, MT_OPEN_FREED);
    const struct mt_seek_point *points;
    struct chunk_header h;
    uint32_t n;
    int fd = memory_file(file.data, file.size);
    struct mt_reader *r = open_file(fd, 0, &points, &n);
    size_t at = FILE_HEADER_SIZE, checked = 0;
    for (uint32_t next = 1; next < n; at += CHUNK_HEADER_SIZE + h.stored_size) {
        assert_null(chunk_header_unpack(&h, file.data + at));
        next += at >= points[next].offset;
        if (next < n && h.type != CHUNK_DEFS && ++checked)
            check_without(&file, at, &whole, points[next].event);
    }
    assert_true(checked > 20);
    mt_close(r);
    reading_free(&whole);
    free(file.data);
    close(fd);
}

/* The parts of a damaged trace in sequence are the whole, if all but the last begin at undamaged points. */
static uint32_t check_sound(int fd, const struct reading *whole)
{
    const struct mt_seek_point *points;
    const struct mt_event *events;
    uint32_t n, sound = 1;
    size_t count, at = 0;
    for (uint32_t i = 0; i < sound; i++) {
        struct mt_reader *r = open_file(fd, MT_OPEN_SALVAGE, &points, &n);
        sound = mt_sound_seek_points(r);
        assert_true(sound >= 1 && sound <= n);
        assert_int_equal(mt_read_range(r, i, i + 1 < sound ? i + 1 : n), MT_OK);
        mt_read_checkpoint(r);
        while (mt_next(r, &events, &count) == MT_MORE)
            for (size_t k = 0; k < count; k++, at++)
                assert_true(at < whole->count && same_event(&events[k], &whole->events[at]));
        mt_close(r);
    }
    assert_int_equal(at, whole->count);
    return sound;
}

static void test_sound_points(void **state)
{
    struct bytes file =
        simple_trace(7, (struct mt_writer_options){.chunk_events = 50, .checkpoint_interval = 2});
    struct chunk_header h;
    uint32_t before = 1, last = 1;
    for (size_t at = FILE_HEADER_SIZE; at + CHUNK_HEADER_SIZE < file.size;
         at += CHUNK_HEADER_SIZE + h.stored_size) {
        assert_null(chunk_header_unpack(&h, file.data + at));
        for (size_t byte = at + 12; byte <= at + CHUNK_HEADER_SIZE; byte += CHUNK_HEADER_SIZE - 12) {
            file.data[byte] ^= 0xff; /* in the header, in the payload */
            int fd = memory_file(file.data, file.size);
            struct reading whole = read_bytes(file.data, file.size, MT_OPEN_SALVAGE | MT_OPEN_FREED);
            last = check_sound(fd, &whole);
            assert_true(last >= before);
            before = last;
            reading_free(&whole);
            close(fd);
            file.data[byte] ^= 0xff;
        }
    }
    assert_true(last > 10);
    free(file.data);
}

static void test_met_threads(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, &(struct mt_writer_options){0}, NULL);
    uint64_t addr = 4096;
    uint32_t site = mt_writer_site(w, &(struct mt_site){.size = 8, .kind = MT_LOAD});
    mt_writer_block_new(w, addr, 64, 0, MT_HOW_MALLOC, 0);
    mt_writer_thread(w, 700);
    mt_writer_accesses(w, &site, &addr, 1); /* an access alone */
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct mt_reader *r = mt_open(memory_path(fd), 0, NULL);
    const struct mt_event *events;
    size_t n;
    mt_pass_accesses(r);
    while (mt_next(r, &events, &n) == MT_MORE)
        assert_int_equal(events[0].kind, MT_NEW);
    assert_true(mt_met_thread(r, 1) && mt_met_thread(r, 700) && !mt_met_thread(r, 2));
    assert_int_equal(mt_thread_end(r), 701);
    mt_close(r);
    close(fd);
}

/* The last n chunks of a part of several are delivered completely; before these, everything except accesses. */
static void check_pass_to_last(const struct reading *whole, int fd, uint32_t n)
{
    const struct mt_seek_point *points;
    const struct mt_event *events;
    size_t count, made = 0, tail = 0;
    uint32_t all;
    struct mt_reader *r = open_file(fd, 0, &points, &all);
    size_t end = points[3].event, first = end - (n < 4 ? n * CHUNK : end - points[1].event);
    assert_int_equal(mt_read_range(r, 1, 3), MT_OK);
    mt_pass_to_last(r, n);
    while (mt_next(r, &events, &count) == MT_MORE) {
        made += count;
        if (mt_passes(r))
            continue;
        for (size_t i = 0; i < count; i++)
            assert_true(same_event(&events[i], &whole->events[first + tail++]));
    }
    assert_int_equal(tail, end - first);
    struct mt_reader_stats stats;
    mt_reader_stats(r, &stats);
    assert_int_equal(made + stats.passed, end - points[1].event);
    assert_int_equal(stats.passed > 0, n < 4);
    mt_close(r);
}

static void test_pass_to_last(void **state)
{
    struct bytes file =
        simple_trace(5, (struct mt_writer_options){.chunk_events = CHUNK, .checkpoint_interval = 2});
    struct reading whole = read_bytes(file.data, file.size, MT_OPEN_FREED);
    int fd = memory_file(file.data, file.size);
    for (uint32_t n = 0; n < 6; n++)
        check_pass_to_last(&whole, fd, n);
    reading_free(&whole);
    free(file.data);
    close(fd);
}

/* A file cut off has the points up to there, and no index. */
static void test_cut_off(void **state)
{
    struct bytes file =
        simple_trace(4, (struct mt_writer_options){.chunk_events = 50, .checkpoint_interval = 2});
    struct reading whole = read_bytes(file.data, file.size, MT_OPEN_FREED);
    const struct mt_seek_point *points;
    uint32_t n, all;
    int fd = memory_file(file.data, file.size), cut_fd = memory_file(file.data, file.size / 2);
    struct mt_reader *r = open_file(fd, 0, &points, &all);
    mt_close(r);
    r = open_file(cut_fd, 0, &points, &n);
    assert_true(n > 2 && n < all);
    check_part(r, &whole, points, n, n - 2, n - 1);
    mt_close(r);
    reading_free(&whole);
    free(file.data);
    close(fd);
    close(cut_fd);
}

/* A point to which the system cannot seek is an error with its reason. */
static void test_failed_seek(void **state)
{
    struct bytes file =
        simple_trace(4, (struct mt_writer_options){.chunk_events = 50, .checkpoint_interval = 2});
    int fd = memory_file(file.data, file.size);
    const struct mt_seek_point *points;
    const struct mt_event *events;
    uint32_t n;
    size_t count;
    struct mt_reader *r = open_file(fd, 0, &points, &n);
    ((struct mt_seek_point *)points)[n - 1].offset = UINT64_C(1) << 63;
    assert_int_equal(mt_read_range(r, n - 1, n), MT_ERROR);
    assert_int_equal(mt_next(r, &events, &count), MT_ERROR);
    assert_int_equal(mt_reader_error(r)->code, MT_E_IO);
    assert_non_null(strstr(mt_reader_error(r)->text, "sought"));
    mt_close(r);
    free(file.data);
    close(fd);
}

/* By default, checkpoints are few and small. */
static void test_share(void **state)
{
    int fd = memory_file("", 0);
    struct mt_writer *w = mt_writer_new(fd, &(struct mt_writer_options){.chunk_events = 1000}, NULL);
    uint64_t seed = 5, live = 0, events = 0;
    struct chunk_header h;
    for (uint32_t i = 0; i < 200000; i++)
        mt_writer_block_new(w, 64 * random_below(&seed, 1 << 10), 1 + random_below(&seed, 63), 0, 0, 0);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);
    struct bytes file = memory_bytes(fd);
    for (size_t at = FILE_HEADER_SIZE; at + CHUNK_HEADER_SIZE < file.size;
         at += CHUNK_HEADER_SIZE + h.stored_size) {
        assert_null(chunk_header_unpack(&h, file.data + at));
        live += h.type == CHUNK_CHECKPOINT ? CHUNK_HEADER_SIZE + h.stored_size : 0;
        events += h.events;
    }
    assert_true(live > 0 && live * 50 < file.size);
    struct reading got = read_bytes(file.data, file.size, 0);
    assert_int_equal(got.result, MT_END); /* each checkpoint was compared with the events */
    assert_int_equal(got.count, events);
    reading_free(&got);
    free(file.data);
    close(fd);
}

/* Write one block at 4096, then a CHECKPOINT chunk with these records; read it. */
static void wrong_checkpoint(struct rec_checkpoint state, struct rec_block block, const char *what)
{
    struct bytes file = {0}, streams[EVENT_STREAMS] = {{0}};
    struct buffer rare = {0}, live = {0};
    append_file_header(&file);
    put_new(&rare, &(struct rec_new){0, 0, 4096, 16, 0, 0, 0});
    put_stop(&rare, &(struct rec_stop){});
    streams[STREAM_TOKENS] = (struct bytes){(uint8_t[]){0, 0}, 2};
    streams[STREAM_RARE] = (struct bytes){rare.data, buffer_size(&rare)};
    append_chunk(&file, &(struct chunk_header){.type = CHUNK_EVENTS, .events = 1}, streams);
    put_checkpoint(&live, &state);
    put_block(&live, &block);
    append_chunk(&file, &(struct chunk_header){.type = CHUNK_CHECKPOINT, .first_event = 1, .first_handle = 1},
                 &(struct bytes){live.data, buffer_size(&live)});
    struct reading got = read_bytes(file.data, file.size, 0);
    assert_int_equal(got.result, MT_ERROR);
    if (!strstr(got.err.text, what))
        fail_msg("expected \"%s\" in \"%s\"", what, got.err.text);
    reading_free(&got);
    got = read_bytes(file.data, file.size, MT_OPEN_SALVAGE);
    reading_free(&got);
    buffer_free(&rare);
    buffer_free(&live);
    free(file.data);
}

static void test_wrong_states(void **state)
{
    const struct rec_block good = {0, 0, 4096, 16, 0};
    wrong_checkpoint((struct rec_checkpoint){1, 0}, good, "before its END"); /* this is the only error */
    wrong_checkpoint((struct rec_checkpoint){0, 0}, good, "too many");
    wrong_checkpoint((struct rec_checkpoint){2, 0}, good, "number of live blocks");
    wrong_checkpoint((struct rec_checkpoint){2, 1}, good, "part of the live blocks is missing");
    wrong_checkpoint((struct rec_checkpoint){1, 0}, (struct rec_block){1, 0, 4096, 16, 0},
                     "differs from the events");
    wrong_checkpoint((struct rec_checkpoint){1, 0}, (struct rec_block){0, 1, 4096, 16, 0},
                     "differs from the events");
    wrong_checkpoint((struct rec_checkpoint){1, 0}, (struct rec_block){0, 0, 4095, 16, 0},
                     "differs from the events");
    wrong_checkpoint((struct rec_checkpoint){1, 0}, (struct rec_block){0, 0, 4096, 17, 0},
                     "differs from the events");
    wrong_checkpoint((struct rec_checkpoint){1, 0}, (struct rec_block){0, 0, 4096, 16, 1},
                     "differs from the events");
}

/* The checkpoint of more than a million blocks is written in parts, and read as one. */
static void test_checkpoint_in_parts(void **state)
{
    enum { BLOCKS = (1 << 20) + 1000, SIZE = 16 };
    int fd = memory_file(NULL, 0);
    struct mt_writer *w = mt_writer_new(
        fd, &(struct mt_writer_options){.chunk_events = BLOCKS, .checkpoint_interval = 1}, NULL);
    for (uint64_t i = 1; i <= BLOCKS; i++)
        mt_writer_block_new(w, i * SIZE, SIZE, 0, MT_HOW_MALLOC, 0);
    mt_writer_block_free(w, (uint64_t)BLOCKS * SIZE, 0, 0);
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, NULL), MT_OK);

    struct bytes file = memory_bytes(fd);
    struct chunk_header h = {0};
    unsigned parts = 0;
    for (size_t at = FILE_HEADER_SIZE; h.type != CHUNK_END; at += CHUNK_HEADER_SIZE + h.stored_size) {
        assert_null(chunk_header_unpack(&h, file.data + at));
        parts += h.type == CHUNK_CHECKPOINT && h.first_event == BLOCKS;
    }
    assert_int_equal(parts, 2);
    free(file.data);

    const struct mt_seek_point *points;
    const struct mt_event *events;
    struct mt_live_block block;
    uint32_t n;
    size_t count;
    struct mt_reader *r = open_file(fd, 0, &points, &n);
    assert_int_equal(points[1].event, BLOCKS);
    assert_int_equal(mt_read_range(r, 1, n), MT_OK);
    mt_read_checkpoint(r);
    for (uint32_t slot = 0; slot < BLOCKS; slot++)
        assert_true(mt_live_block(r, slot, &block) && block.addr == (slot + 1) * (uint64_t)SIZE);
    assert_int_equal(mt_next(r, &events, &count), MT_MORE);
    assert_int_equal(events[0].handle, BLOCKS - 1);
    mt_close(r);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_part),   cmocka_unit_test(test_live_blocks),
        cmocka_unit_test(test_one_part),     cmocka_unit_test(test_salvage_goes_on),
        cmocka_unit_test(test_cut_off),      cmocka_unit_test(test_failed_seek),
        cmocka_unit_test(test_share),        cmocka_unit_test(test_wrong_states),
        cmocka_unit_test(test_sound_points), cmocka_unit_test(test_met_threads),
        cmocka_unit_test(test_pass_to_last), cmocka_unit_test(test_checkpoint_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
