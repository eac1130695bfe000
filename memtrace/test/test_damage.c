/* test_damage.c - a trace cut at every byte, and with every byte changed, causes no crash and no wrong event.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A small trace of several chunks, with definitions before the second and the fourth. */
static struct bytes make_trace(void)
{
    int fd = memory_file("", 0);
    struct mt_error err = {0};
    struct mt_writer *w =
        mt_writer_new(fd, &(struct mt_writer_options){.chunk_events = 20, .checkpoint_interval = 2}, &err);
    assert_non_null(w);
    mt_writer_info(w, "command", "test");
    uint32_t site = mt_writer_site(w, &(struct mt_site){.ip = 16, .size = 8, .kind = MT_STORE});
    for (uint64_t i = 0; i < 5; i++) {
        uint32_t sites[12];
        uint64_t addrs[12];
        mt_writer_time(w, i * 1000);
        mt_writer_block_new(w, 0x1000 * i, 100, 0, MT_HOW_MALLOC, 0);
        if (i == 3)
            site = mt_writer_site(w, &(struct mt_site){.ip = 32, .size = 4, .kind = MT_LOAD});
        for (uint64_t k = 0; k < 12; k++) {
            sites[k] = site;
            addrs[k] = 0x1000 * (i - k % 2 * (i > 0)) + 8 * k;
        }
        mt_writer_accesses(w, sites, addrs, 12);
        mt_writer_touch(w, MT_STORE, 0x1000 * i + 10, 20);
        if (i == 4)
            mt_writer_touch(w, MT_LOAD, 0x2000, 200); /* freed */
        if (i % 2)
            mt_writer_block_free_as(w, 0x1000 * (i - 1), 0, MT_HOW_CXX_NEW, 0);
    }
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, &err), MT_OK);
    struct bytes file = memory_bytes(fd);
    close(fd);
    return file;
}

/* Every event must be equal to that of the whole file at this place. */
static void check_prefix(const struct reading *whole, const struct reading *got)
{
    assert_true(got->count <= whole->count);
    for (size_t i = 0; i < got->count; i++)
        assert_true(same_event(&got->events[i], &whole->events[i]));
}

/* Offset of the byte after the n-th chunk that begins at or after the file header. */
static size_t chunk_end(const struct bytes *file, size_t start)
{
    return start + CHUNK_HEADER_SIZE + load_u32(file->data + start + 16);
}

/* Events in the chunks that end at or before `size`, and whether the END chunk is among them. */
static size_t whole_events(const struct bytes *file, size_t size, bool *ended)
{
    size_t events = 0, end;
    *ended = false;
    for (size_t at = FILE_HEADER_SIZE; at + TRAILER_SIZE < file->size && (end = chunk_end(file, at)) <= size;
         at = end) {
        events += load_u32(file->data + at + 20);
        *ended |= file->data[at + 8] == CHUNK_END;
    }
    return events;
}

static void test_cut_everywhere(void **state)
{
    struct bytes file = make_trace();
    struct reading whole = read_bytes(file.data, file.size, MT_OPEN_FREED);
    assert_int_equal(whole.result, MT_END);
    assert_int_equal(whole.count, 75);
    for (size_t size = 1; size < file.size; size++) {
        bool ended;
        struct reading got = read_bytes(file.data, size, MT_OPEN_FREED);
        size_t events = whole_events(&file, size, &ended);
        check_prefix(&whole, &got);
        assert_int_equal(got.count, events);
        if (got.result == MT_END)
            assert_true(ended);
        else
            assert_int_equal(got.err.code, MT_E_TRUNCATED);
        reading_free(&got);
    }
    struct reading none = read_bytes("", 0, MT_OPEN_FREED);
    assert_int_equal(none.err.code, MT_E_FORMAT);
    reading_free(&whole);
    free(file.data);
}

/* Only a cut directly after the END chunk is no error. */
static void test_cut_after_end(void **state)
{
    struct bytes file = make_trace();
    unsigned good = 0;
    for (size_t size = 1; size < file.size; size++) {
        struct reading got = read_bytes(file.data, size, MT_OPEN_FREED);
        good += got.result == MT_END;
        reading_free(&got);
    }
    assert_int_equal(good, 1);
    free(file.data);
}

static void test_change_every_byte(void **state)
{
    static const uint8_t changes[] = {0x01, 0x80, 0xff};
    struct bytes file = make_trace();
    struct reading whole = read_bytes(file.data, file.size, MT_OPEN_FREED);
    for (size_t at = 0; at < file.size; at++)
        for (size_t k = 0; k < sizeof changes; k++) {
            file.data[at] ^= changes[k];
            struct reading got = read_bytes(file.data, file.size, MT_OPEN_FREED);
            assert_int_equal(got.result, MT_ERROR);
            assert_true(got.err.code != MT_E_NONE && got.err.text[0]);
            check_prefix(&whole, &got);
            reading_free(&got);
            file.data[at] ^= changes[k];
        }
    reading_free(&whole);
    free(file.data);
}

/* Salvaging delivers events of the whole trace, in its order, and LOST events for what is missing. */
static void check_salvaged(const struct reading *whole, const struct reading *got)
{
    size_t at = 0;
    uint64_t lost = 0;
    for (size_t i = 0; i < got->count; i++) {
        if (got->events[i].kind == MT_LOST) {
            lost += got->events[i].size;
            continue;
        }
        while (at < whole->count && !same_event(&got->events[i], &whole->events[at]))
            at++;
        assert_true(at < whole->count);
        at++;
        lost++;
    }
    assert_true(lost <= whole->count);
    if (got->stats.ending != MT_ENDING_UNKNOWN)
        assert_int_equal(lost, whole->count);
}

static void test_salvage_every_byte(void **state)
{
    struct bytes file = make_trace();
    struct reading whole = read_bytes(file.data, file.size, MT_OPEN_FREED);
    size_t most = 0, least = whole.count;
    for (size_t at = 0; at < file.size; at++) {
        file.data[at] ^= 0x10;
        struct reading got = read_bytes(file.data, file.size, MT_OPEN_SALVAGE | MT_OPEN_FREED);
        assert_int_equal(got.result, MT_END);
        assert_true(got.stats.damaged_chunks > 0);
        assert_true(strncmp(got.damage, "offset ", 7) == 0);
        check_salvaged(&whole, &got);
        most = got.count > most ? got.count : most;
        least = got.count < least ? got.count : least;
        reading_free(&got);
        file.data[at] ^= 0x10;
    }
    assert_int_equal(most, whole.count);
    assert_true(least > 0);
    reading_free(&whole);
    free(file.data);
}

/* Missing and duplicate chunks are detected, although each chunk is valid. */
static void test_missing_chunks(void **state)
{
    struct bytes file = make_trace();
    struct reading whole = read_bytes(file.data, file.size, MT_OPEN_FREED);
    for (size_t at = FILE_HEADER_SIZE, end; at + TRAILER_SIZE < file.size; at = end) {
        struct bytes less = {0}, more = {0};
        end = chunk_end(&file, at);
        if (file.data[at + 8] == CHUNK_INDEX)
            break;
        append_bytes(&less, file.data, at);
        append_bytes(&less, file.data + end, file.size - end);
        append_bytes(&more, file.data, end);
        append_bytes(&more, file.data + at, file.size - at);
        struct reading a = read_bytes(less.data, less.size, MT_OPEN_FREED),
                       b = read_bytes(more.data, more.size, MT_OPEN_FREED);
        assert_int_equal(a.err.code, MT_E_CORRUPT);
        assert_int_equal(b.err.code, MT_E_CORRUPT);
        check_prefix(&whole, &a);
        check_prefix(&whole, &b);
        reading_free(&a);
        reading_free(&b);
        a = read_bytes(less.data, less.size, MT_OPEN_SALVAGE | MT_OPEN_FREED);
        b = read_bytes(more.data, more.size, MT_OPEN_SALVAGE | MT_OPEN_FREED);
        check_salvaged(&whole, &a);
        check_salvaged(&whole, &b);
        reading_free(&a);
        reading_free(&b);
        free(less.data);
        free(more.data);
    }
    reading_free(&whole);
    free(file.data);
}

/* A trace with one block of 8 GB, and new sites before each chunk, which are used from then on. */
static struct bytes make_huge(void)
{
    int fd = memory_file("", 0);
    struct mt_error err = {0};
    struct mt_writer *w =
        mt_writer_new(fd, &(struct mt_writer_options){.chunk_events = 20, .checkpoint_interval = 1}, &err);
    assert_non_null(w);
    mt_writer_block_new(w, 1ULL << 40, 8ULL << 30, 0, MT_HOW_MALLOC, 0);
    uint32_t sites[6];
    for (uint64_t i = 0; i < 6; i++) {
        sites[i] = mt_writer_site(w, &(struct mt_site){.ip = 16 * i, .size = 8, .kind = MT_STORE});
        for (uint64_t k = 0; k < 20; k++) {
            uint64_t addr = (1ULL << 40) + 16 * k;
            mt_writer_accesses(w, &sites[k % (i + 1)], &addr, 1);
        }
    }
    assert_int_equal(mt_writer_finish(w, MT_ENDING_EXIT, &err), MT_OK);
    struct bytes file = memory_bytes(fd);
    close(fd);
    return file;
}

/* No block is so large that accesses by sites whose definitions are lost would be wholly in it. */
static void test_lost_sites_in_a_huge_block(void **state)
{
    struct bytes file = make_huge();
    struct reading whole = read_bytes(file.data, file.size, 0);
    for (size_t at = FILE_HEADER_SIZE, end; file.data[at + 8] != CHUNK_INDEX; at = end) {
        end = chunk_end(&file, at);
        file.data[end - 1] ^= 0x10;
        struct reading got = read_bytes(file.data, file.size, MT_OPEN_SALVAGE);
        check_salvaged(&whole, &got);
        reading_free(&got);
        file.data[end - 1] ^= 0x10;
    }
    reading_free(&whole);
    free(file.data);
}

/* Random damage of several bytes at once, cuts and insertions, with and without salvaging: no crash, no hang. */
static void test_random_damage(void **state)
{
    struct bytes file = make_trace();
    uint64_t seed = 42;
    for (int i = 0; i < 3000; i++) {
        struct bytes bad = {0};
        size_t at = random_below(&seed, file.size),
               skip = random_below(&seed, 3) ? 0 : random_below(&seed, 50);
        append_bytes(&bad, file.data, at);
        if (at + skip < file.size)
            append_bytes(&bad, file.data + at + skip, file.size - at - skip);
        for (int k = 0; k < 4 && bad.size; k++)
            bad.data[random_below(&seed, bad.size)] = (uint8_t)random_next(&seed);
        struct reading plain = read_bytes(bad.data, bad.size, MT_OPEN_FREED);
        struct reading salvaged = read_bytes(bad.data, bad.size, MT_OPEN_SALVAGE | MT_OPEN_FREED);
        reading_free(&plain);
        reading_free(&salvaged);
        free(bad.data);
    }
    free(file.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_everywhere),    cmocka_unit_test(test_cut_after_end),
        cmocka_unit_test(test_change_every_byte), cmocka_unit_test(test_salvage_every_byte),
        cmocka_unit_test(test_missing_chunks),    cmocka_unit_test(test_lost_sites_in_a_huge_block),
        cmocka_unit_test(test_random_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
