/* test_hostile.c - malicious files: correct checksums with contents that violate the format.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/format/predictor.h"
#include "memtrace/format/records.h"
#include "memtrace/read/reader_impl.h"
#include "memtrace/rewrite.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define MISS_ALL (MISS_SITE | MISS_SLOT | MISS_OFFSET)

/* A file under construction. */
struct craft {
    struct bytes file;
    struct buffer streams[EVENT_STREAMS];
};

static void add_chunk(struct craft *c, struct chunk_header h)
{
    struct bytes streams[EVENT_STREAMS];
    if (c->file.size == 0)
        append_file_header(&c->file);
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        streams[i] = (struct bytes){c->streams[i].data, buffer_size(&c->streams[i])};
    append_chunk(&c->file, &h, streams);
    for (unsigned i = 0; i < EVENT_STREAMS; i++)
        buffer_free(&c->streams[i]);
}

/* Read the file with and without salvaging. Without, it must fail with this code and a text that contains `what`. */
static void expect_error(struct craft *c, enum mt_error_code code, const char *what)
{
    struct reading got = read_bytes(c->file.data, c->file.size, 0);
    assert_int_equal(got.result, MT_ERROR);
    assert_int_equal(got.err.code, code);
    if (!strstr(got.err.text, what))
        fail_msg("expected \"%s\" in \"%s\"", what, got.err.text);
    reading_free(&got);
    got = read_bytes(c->file.data, c->file.size, MT_OPEN_SALVAGE);
    reading_free(&got);
    free(c->file.data);
    c->file = (struct bytes){0};
}

static void put_site_def(struct craft *c)
{
    struct buffer *b = &c->streams[0];
    put_base(b, &(struct rec_base){1, 1, 1, 1, 1, 0});
    put_site(b, &(struct rec_site){16, 0, 8, MT_LOAD});
    add_chunk(c, (struct chunk_header){.type = CHUNK_DEFS});
}

/* Begin an EVENTS chunk with a block of 16 bytes at 4096, slot 0. */
static struct buffer *begin_events(struct craft *c)
{
    put_site_def(c);
    buffer_byte(&c->streams[STREAM_TOKENS], 0);
    put_new(&c->streams[STREAM_RARE], &(struct rec_new){0, 0, 4096, 16, 0, 0, 0});
    return &c->streams[STREAM_RARE];
}

static void end_chunk(struct craft *c, uint8_t type, uint32_t events)
{
    buffer_byte(&c->streams[STREAM_TOKENS], 0);
    put_stop(&c->streams[STREAM_RARE], &(struct rec_stop){});
    add_chunk(c, (struct chunk_header){.type = type, .events = events});
}

static void end_events(struct craft *c, uint32_t events)
{
    end_chunk(c, CHUNK_EVENTS, events);
}

/* The crafted file is valid except for its missing END: this tests the crafting. */
static void expect_good(struct craft c)
{
    struct reading got = read_bytes(c.file.data, c.file.size, 0);
    assert_int_equal(got.count, 2);
    assert_int_equal(got.events[1].addr, 4096 + 15);
    assert_int_equal(got.events[1].ref, 1);
    reading_free(&got);
    expect_error(&c, MT_E_TRUNCATED, "before its END");
}

/* A segment that runs once: the numbers in its streams. */
struct run {
    uint8_t token;
    uint64_t name, codes, age, slot, offset;
};

static void put_run(struct craft *c, const struct run *r)
{
    buffer_byte(&c->streams[STREAM_TOKENS], r->token);
    buffer_uvarint(&c->streams[STREAM_SEGMENTS], r->name);
    buffer_uvarint(&c->streams[STREAM_CODES], r->codes);
    if (r->age)
        buffer_uvarint(&c->streams[STREAM_AGES], r->age);
    if (r->slot != UINT64_MAX - 1)
        buffer_uvarint(&c->streams[STREAM_SLOTS], r->slot);
    buffer_uvarint(&c->streams[STREAM_OFFSETS], r->offset);
}

/* Site 1, as a single access, at offset 15 of the block. */
static void test_good(void **state)
{
    struct craft c = {0};
    begin_events(&c);
    put_run(&c, &(struct run){MISS_SEGMENT | MISS_WORDS, 1 + 3, WORD_BLOCK, 0, 0, 15});
    end_events(&c, 2);
    expect_good(c);
}

static void one_run(struct run r, const char *what)
{
    struct craft c = {0};
    begin_events(&c);
    put_run(&c, &r);
    end_events(&c, 2);
    expect_error(&c, MT_E_CORRUPT, what);
}

static void test_wrong_accesses(void **state)
{
    const uint8_t both = MISS_SEGMENT | MISS_WORDS;
    const uint64_t none = UINT64_MAX - 1;
    const char *segment = "segment is undefined or invalid", *block = "no live block";
    one_run((struct run){both, 0, WORD_BLOCK, 0, 0, 0}, segment);
    one_run((struct run){both, 1 + 1, WORD_BLOCK, 0, 0, 0}, segment);
    one_run((struct run){both, 1 + 5, WORD_BLOCK, 0, 0, 0}, segment);
    one_run((struct run){both, 1 + 0, WORD_BLOCK, 0, 0, 0}, segment);
    one_run((struct run){both, UINT64_MAX, WORD_BLOCK, 0, 0, 0}, segment);
    one_run((struct run){both, 1 + 3, WORD_BLOCK << WORD_BITS, 0, 0, 0}, segment);
    one_run((struct run){both, 1 + 3, UINT64_MAX, 0, 0, 0}, segment);
    one_run((struct run){both | 4, 1 + 3, WORD_BLOCK, 0, 0, 0}, segment);
    one_run((struct run){MISS_WORDS, 1 + 3, WORD_BLOCK, 0, 0, 0}, segment);
    one_run((struct run){both, 1 + 3, WORD_BLOCK, 0, 1, 0}, block);
    one_run((struct run){both, 1 + 3, WORD_BLOCK, 0, UINT64_MAX, 0}, block);
    one_run((struct run){both, 1 + 3, WORD_BACK, RECENT + 1, none, 0}, block);
    one_run((struct run){both, 1 + 3, WORD_BACK, UINT64_MAX, none, 0}, block);
    one_run((struct run){both, 1 + 3, WORD_AGAIN, 0, none, 0}, block);
    one_run((struct run){both, 1 + 3, WORD_CODES, 0, none, 0}, block);
    one_run((struct run){both, 1 + 3, WORD_BLOCK, 0, 0, 16}, "ends before its events do");
    one_run((struct run){both, 1 + 3, WORD_BLOCK, 0, 0, UINT64_MAX}, "ends before its events do");
    one_run((struct run){both, 1 + 3, WORD_FOREIGN, 0, none, 0}, "ends before its events do");
    one_run((struct run){1 << 3, 1 + 3, 0, 0, none, 0}, "segment is predicted that never ran");
    one_run((struct run){2 << 3 | both, 1 + 3, WORD_BLOCK, 0, 0, 0}, "more accesses than the chunk has");
    one_run((struct run){31 << 3 | both, 1 + 3, WORD_BLOCK, 0, 0, 0}, "more accesses than the chunk has");
}

static void test_streams_cut_off(void **state)
{
    const unsigned needed[] = {STREAM_SEGMENTS, STREAM_CODES, STREAM_SLOTS, STREAM_OFFSETS};
    for (unsigned missing = 0; missing < 4; missing++) {
        struct craft c = {0};
        begin_events(&c);
        put_run(&c, &(struct run){MISS_SEGMENT | MISS_WORDS, 1 + 3, WORD_BLOCK, 0, 0, 15});
        buffer_reset(&c.streams[needed[missing]]);
        end_events(&c, 2);
        expect_error(&c, MT_E_CORRUPT, "");
    }
}

static void test_streams_not_used_up(void **state)
{
    for (unsigned extra = 0; extra < EVENT_STREAMS; extra++) {
        struct craft c = {0};
        begin_events(&c);
        buffer_byte(&c.streams[STREAM_TOKENS], 0);
        put_stop(&c.streams[STREAM_RARE], &(struct rec_stop){});
        buffer_byte(&c.streams[extra], 7);
        add_chunk(&c, (struct chunk_header){.type = CHUNK_EVENTS, .events = 1});
        expect_error(&c, MT_E_CORRUPT, "chunk ends before its events do");
    }
}

static void test_wrong_event_count(void **state)
{
    struct craft c = {0};
    begin_events(&c);
    end_events(&c, 2);
    expect_error(&c, MT_E_CORRUPT, "chunk ends before its events do");
    begin_events(&c);
    buffer_byte(&c.streams[STREAM_TOKENS], 0);
    put_mark(&c.streams[STREAM_RARE], &(struct rec_mark){0, 0});
    end_events(&c, 1);
    expect_error(&c, MT_E_CORRUPT, "more events than the chunk says");
}

/* One rare record after the New of slot 0. */
#define RARE_ERROR(name, what, ...)                                                                          \
    do {                                                                                                     \
        struct craft c = {0};                                                                                \
        struct buffer *b = begin_events(&c);                                                                 \
        buffer_byte(&c.streams[STREAM_TOKENS], 0);                                                           \
        put_##name(b, &(struct rec_##name){__VA_ARGS__});                                                    \
        end_events(&c, 2);                                                                                   \
        expect_error(&c, MT_E_CORRUPT, what);                                                                \
    } while (0)

static void test_wrong_records(void **state)
{
    RARE_ERROR(new, "slot that is not free", 0, 0, 64, 1, 0, 0, 0);
    RARE_ERROR(new, "slot that is not free", 0, 2, 64, 1, 0, 0, 0);
    RARE_ERROR(new, "slot that is not free", 0, UINT64_MAX, 64, 1, 0, 0, 0);
    RARE_ERROR(new, "not defined", 0, 1, 64, 1, 1, 0, 0);
    RARE_ERROR(new, "not defined", 0, 1, 64, 1, 0, MT_HOWS, 0);
    RARE_ERROR(new, "not defined", 0, 1, 64, 1, 0, 0, 1);
    RARE_ERROR(new, "address space", 0, 1, UINT64_MAX, 2, 0, 0, 0);
    RARE_ERROR(free, "not live", 0, 1, 0, 0);
    RARE_ERROR(free, "not live", 0, UINT64_MAX, 0, 0);
    RARE_ERROR(free, "not defined", 0, 0, 0, 9);
    RARE_ERROR(free, "not defined", 0, 0, 2, 0);
    RARE_ERROR(resize, "not live", 0, 3, 0, 16, 0);
    RARE_ERROR(resize, "not defined", 0, 0, 0, 16, 3);
    RARE_ERROR(resize, "address space", 0, 0, -1, UINT64_MAX, 0);
    RARE_ERROR(thread, "too large", 65536);
    RARE_ERROR(mark, "not defined", 0, 1);
    RARE_ERROR(badfree, "not defined", 0, 0, 5, 0, 0, 0, 0);
    RARE_ERROR(badfree, "not defined", 0, 0, 0, 5, 0, 0, 0);
    RARE_ERROR(badfree, "unknown kind or block", 0, 64, 0, 0, MT_BADFREES, 0, 0);
    RARE_ERROR(badfree, "unknown kind or block", 0, 64, 0, 0, MT_BADFREE_DOUBLE, 2, 0);
    RARE_ERROR(badfree, "unknown kind or block", 0, 64, 0, 0, MT_BADFREE_INSIDE, 1, 65);
    RARE_ERROR(badfree, "unknown kind or block", 0, 64, 0, 0, MT_BADFREE_INVALID, 0, 1);
    RARE_ERROR(lost, "not defined", 0, 0, 5);
    RARE_ERROR(touch, "not live", 0, MT_LOAD, 1, 0, 8);
    RARE_ERROR(touch, "unknown kind", 0, MT_FREE, 0, 0, 8);
    RARE_ERROR(touch, "outside its block", 0, MT_LOAD, 0, 16, 1);
    RARE_ERROR(touch, "outside its block", 0, MT_LOAD, 0, 8, 9);
    RARE_ERROR(touch, "outside its block", 0, MT_LOAD, 0, 0, 0);
    RARE_ERROR(touch, "outside its block", 0, MT_LOAD, 0, UINT64_MAX, 2);
    RARE_ERROR(freed, "not defined", 0, 2, MT_LOAD, 64, 8, 0, 0, 0);
    RARE_ERROR(freed, "not defined", 0, 1, MT_STORE, 64, 8, 0, 0, 0);
    RARE_ERROR(freed, "not defined", 0, 1, MT_LOAD, 64, 4, 0, 0, 0);
    RARE_ERROR(freed, "not defined", 0, 0, MT_MARK, 64, 8, 0, 0, 0);
    RARE_ERROR(freed, "not defined", 0, 1, MT_LOAD, 64, 8, 0, 0, 1);
    RARE_ERROR(freed, "never existed", 0, 1, MT_LOAD, 64, 8, 1, 0, 0);
    RARE_ERROR(freed, "never existed", 0, 1, MT_LOAD, 64, 8, 0, 65, 0);
    RARE_ERROR(inherit, "slot that is not free", 0, 0, 64, 1, 0, 0, 0);
    RARE_ERROR(inherit, "not defined", 0, 1, 64, 1, 1, 0, 0);
    RARE_ERROR(site, "unknown record", 0, 0, 8, MT_LOAD);
}

#define DEF_ERROR(name, what, ...)                                                                           \
    do {                                                                                                     \
        struct craft c = {0};                                                                                \
        put_base(&c.streams[0], &(struct rec_base){1, 1, 1, 1, 1, 0});                                       \
        put_##name(&c.streams[0], &(struct rec_##name){__VA_ARGS__});                                        \
        add_chunk(&c, (struct chunk_header){.type = CHUNK_DEFS});                                            \
        expect_error(&c, MT_E_CORRUPT, what);                                                                \
    } while (0)

static const char s_long_id[MT_BUILD_ID_MOST + 1];

static void test_wrong_definitions(void **state)
{
    DEF_ERROR(frame, "not defined", 0, 1, 0, 0, 0);
    DEF_ERROR(frame, "not defined", 0, 0, 0, 1, 0);
    DEF_ERROR(stack, "not defined", 1, 0);
    DEF_ERROR(stack, "not defined", 0, 1);
    DEF_ERROR(site, "not defined", 0, 1, 8, MT_LOAD);
    DEF_ERROR(site, "unknown kind", 0, 0, 8, MT_FREE);
    DEF_ERROR(site, "too wide", 0, 0, UINT64_MAX, MT_LOAD);
    DEF_ERROR(heap, "unknown kind", 0, MT_HEAP_KINDS);
    DEF_ERROR(info, "not defined", 0, 1);
    DEF_ERROR(trace, "not defined", 1, 1, 4096, 64, 0, 0);                 /* of a heap */
    DEF_ERROR(trace, "not defined", 0, 1, 4096, 64, 0, 1);                 /* of a frame */
    DEF_ERROR(trace, "not defined", 0, UINT64_C(1) << 32, 4096, 64, 0, 0); /* its number */
    DEF_ERROR(module, "not defined", 1, {NULL, 0}, 4096, 64, 0, 0);
    DEF_ERROR(module, "too long", 0, {s_long_id, sizeof s_long_id}, 4096, 64, 0, 0);
    DEF_ERROR(module, "beyond the address space", 0, {NULL, 0}, UINT64_MAX - 8, 64, 0, 0);
    DEF_ERROR(pages, "not defined", .reason = 1, .page = 4096);
    DEF_ERROR(pages, "not possible", .page = 0);
    DEF_ERROR(pages, "not possible", .page = 4097);
    DEF_ERROR(pages, "not possible", .page = 4096, .mappings = UINT64_C(1) << 32);
    DEF_ERROR(mapping, "not defined", .name = 1);
    DEF_ERROR(region, "not defined", .stack = 1);
    DEF_ERROR(region, "beyond the address space", .start = UINT64_MAX - 8, .size = 64);
    DEF_ERROR(string, "NUL", {"a\0b", 3});
    DEF_ERROR(new, "unknown record", 0, 0, 0, 0, 0, 0, 0);
}

/* A mapping of pages that were read before it. */
static void expect_mapping(const struct rec_mapping *m, enum mt_error_code code, const char *what)
{
    struct craft c = {0};
    struct buffer *b = &c.streams[0];
    put_base(b, &(struct rec_base){1, 1, 1, 1, 1, 0});
    put_pages(b, &(struct rec_pages){.time = 7, .page = 4096, .mappings = 1});
    put_mapping(b, m);
    add_chunk(&c, (struct chunk_header){.type = CHUNK_DEFS});
    expect_error(&c, code, what);
}

#define MAPPING(...) (&(struct rec_mapping){.time = 7, __VA_ARGS__})

static char s_many_runs[MT_RUNS_MOST + 1];

static void test_wrong_mappings(void **state)
{
    memset(s_many_runs, 1 << MT_PAGE_STATE_BITS, sizeof s_many_runs);
    expect_mapping(MAPPING(.start = 1, .size = 4096), MT_E_CORRUPT, "whole pages");
    expect_mapping(MAPPING(.size = 100), MT_E_CORRUPT, "whole pages");
    expect_mapping(MAPPING(.start = 4096), MT_E_CORRUPT, "whole pages");
    expect_mapping(MAPPING(.start = -UINT64_C(4096), .size = 8192), MT_E_CORRUPT, "beyond");
    expect_mapping(MAPPING(.size = 4096, .runs = {"\x20", 1}), MT_E_CORRUPT, "not its pages");
    expect_mapping(MAPPING(.size = 8192, .runs = {"\x10", 1}), MT_E_CORRUPT, "not its pages");
    expect_mapping(MAPPING(.size = 4096, .runs = {"\x01\x10", 2}), MT_E_CORRUPT, "not its pages");
    expect_mapping(MAPPING(.size = 4096, .runs = {"\x10\x80", 2}), MT_E_CORRUPT, "not its pages");
    expect_mapping(
        MAPPING(.size = sizeof s_many_runs * UINT64_C(4096), .runs = {s_many_runs, sizeof s_many_runs}),
        MT_E_CORRUPT, "not its pages");
    expect_mapping(MAPPING(.size = 4096, .runs = {"\x11", 1}), MT_E_TRUNCATED, "");
    expect_mapping(&(struct rec_mapping){.time = 8, .start = 1}, MT_E_TRUNCATED, ""); /* of lost pages */
}

/* What a damaged file can have lost: a chunk with some of the records. Only the end of the trace is missing. */
static void test_odd_modules(void **state)
{
    struct craft c = {0};
    struct buffer *b = &c.streams[0];
    put_base(b, &(struct rec_base){1, 1, 1, 1, 1, 0});
    put_unmapped(b, &(struct rec_unmapped){4096, 1});
    put_module(b, &(struct rec_module){.start = 4096, .size = 64, .bias = UINT64_MAX, .time = 9});
    put_module(b, &(struct rec_module){.start = 4096, .size = UINT64_MAX - 4096, .time = 5});
    put_module(b, &(struct rec_module){.start = 0, .size = 0});
    put_unmapped(b, &(struct rec_unmapped){4096, 1});
    put_unmapped(b, &(struct rec_unmapped){4096, UINT64_MAX});
    put_unmapped(b, &(struct rec_unmapped){4096, 2});
    put_frame(b, &(struct rec_frame){UINT64_MAX, 0, 0, 0, 0});
    put_frame(b, &(struct rec_frame){4100, 0, 0, 0, 0});
    add_chunk(&c, (struct chunk_header){.type = CHUNK_DEFS});
    expect_error(&c, MT_E_TRUNCATED, "");
}

/* A segment after two sites; its accesses follow it. */
static void segment_error(struct rec_segment s, const struct rec_access *accesses, unsigned n,
                          const char *what)
{
    struct craft c = {0};
    struct buffer *b = &c.streams[0];
    put_base(b, &(struct rec_base){1, 1, 1, 1, 1, 0});
    put_site(b, &(struct rec_site){16, 0, 8, MT_LOAD});
    put_site(b, &(struct rec_site){20, 0, 8, MT_STORE});
    put_segment(b, &s);
    for (unsigned i = 0; i < n; i++)
        put_access(b, &accesses[i]);
    add_chunk(&c, (struct chunk_header){.type = CHUNK_DEFS});
    expect_error(&c, s.words == 2 && n == 2 && !what[0] ? MT_E_TRUNCATED : MT_E_CORRUPT, what);
}

static void test_wrong_segments(void **state)
{
    const struct rec_access good[] = {{1, 0, 0}, {1, 1, 8}}, far[] = {{1, 0, 0}, {1, 0, 65536}},
                            unknown[] = {{1, 0, 0}, {2, 1, 0}}, below[] = {{-1, 0, 0}, {2, 1, 0}},
                            word[] = {{1, 0, 0}, {1, 2, 0}}, long_way[] = {{1, 0, 0}, {1, 1, INT64_MAX}};
    segment_error((struct rec_segment){0, 2, 2, 1}, good, 2, "");
    segment_error((struct rec_segment){1, 2, 2, 1}, good, 2, "missing before");
    segment_error((struct rec_segment){UINT64_MAX, 2, 2, 1}, good, 2, "out of order");
    segment_error((struct rec_segment){0, 0, 0, 1}, good, 0, "invalid");
    segment_error((struct rec_segment){0, 2, 1, 1}, good, 2, "invalid");
    segment_error((struct rec_segment){0, 2, 3, 1}, good, 2, "invalid");
    segment_error((struct rec_segment){0, 2, UINT64_MAX, 1}, good, 2, "invalid");
    segment_error((struct rec_segment){0, 2, 2, 256}, good, 2, "invalid");
    segment_error((struct rec_segment){0, 65, 2, 1}, good, 2, "too long");
    segment_error((struct rec_segment){0, 3, 2, 1}, good, 2, "cut off");
    segment_error((struct rec_segment){0, 2, 1, 1}, far, 2, "invalid");
    segment_error((struct rec_segment){0, 2, 2, 1}, unknown, 2, "invalid");
    segment_error((struct rec_segment){0, 2, 2, 1}, below, 2, "cut off");
    segment_error((struct rec_segment){0, 2, 2, 1}, word, 2, "invalid");
    segment_error((struct rec_segment){0, 2, 2, 1}, long_way, 2, "cut off");
}

static void test_wrong_base(void **state)
{
    struct craft c = {0};
    put_string(&c.streams[0], &(struct rec_string){{"x", 1}});
    add_chunk(&c, (struct chunk_header){.type = CHUNK_DEFS});
    expect_error(&c, MT_E_CORRUPT, "begin with their base");
    put_base(&c.streams[0], &(struct rec_base){UINT64_MAX, 1, 1, 1, 1, 0});
    add_chunk(&c, (struct chunk_header){.type = CHUNK_DEFS});
    expect_error(&c, MT_E_CORRUPT, "missing or duplicate");
}

/* Headers with correct checksums and impossible sizes are refused before memory is allocated. */
static void header_error(struct chunk_header h, const char *what)
{
    struct bytes file = {0};
    uint8_t header[CHUNK_HEADER_SIZE];
    append_file_header(&file);
    chunk_header_pack(&h, header);
    append_bytes(&file, header, sizeof header);
    struct craft c = {.file = file};
    expect_error(&c, MT_E_CORRUPT, what);
}

static void test_wrong_headers(void **state)
{
    header_error((struct chunk_header){.type = CHUNK_EVENTS, .events = 1, .raw_size = UINT32_MAX}, "larger");
    header_error((struct chunk_header){.type = CHUNK_DEFS, .stored_size = UINT32_MAX}, "larger");
    header_error((struct chunk_header){.type = CHUNK_EVENTS, .events = UINT32_MAX, .stored_size = 56},
                 "larger");
    header_error((struct chunk_header){.type = CHUNK_DEFS, .stored_size = 7}, "too small");
    header_error((struct chunk_header){.type = CHUNK_DEFS, .stored_size = 8, .events = 1}, "event count");
    header_error((struct chunk_header){.type = CHUNK_EVENTS, .stored_size = 56}, "event count");
    header_error((struct chunk_header){.type = 77, .stored_size = 8}, "unknown type");
}

/* A stream whose stated size differs from that in its zstd frame. */
static void test_wrong_stream_sizes(void **state)
{
    struct bytes stream = {(uint8_t *)"some definitions", 16};
    for (int change = -1; change <= 1; change += 2) {
        struct craft c = {0};
        struct chunk_header h = {.type = CHUNK_DEFS};
        append_file_header(&c.file);
        append_chunk(&c.file, &h, &stream);
        uint8_t *payload = c.file.data + FILE_HEADER_SIZE + CHUNK_HEADER_SIZE;
        store_u32(payload, (uint32_t)(16 + change));
        h.raw_size = (uint32_t)(16 + change);
        h.payload_hash = XXH3_64bits(payload, h.stored_size);
        chunk_header_pack(&h, c.file.data + FILE_HEADER_SIZE);
        expect_error(&c, MT_E_CORRUPT, "compressed data");
    }
}

static void test_wrong_end(void **state)
{
    struct craft c = {0};
    put_end(&c.streams[0], &(struct rec_end){.ending = MT_ENDINGS});
    add_chunk(&c, (struct chunk_header){.type = CHUNK_END});
    expect_error(&c, MT_E_CORRUPT, "END chunk is wrong");
    put_end(&c.streams[0], &(struct rec_end){.ending = MT_ENDING_EXIT, .events.of[MT_LOAD] = 1});
    add_chunk(&c, (struct chunk_header){.type = CHUNK_END});
    expect_error(&c, MT_E_CORRUPT, "do not add up");
    put_end(&c.streams[0], &(struct rec_end){.ending = MT_ENDING_EXIT});
    add_chunk(&c, (struct chunk_header){.type = CHUNK_END});
    put_site_def(&c);
    expect_error(&c, MT_E_CORRUPT, "out of order");
}

static void test_versions(void **state)
{
    struct craft c = {0};
    append_file_header(&c.file);
    c.file.data[8] = 5;
    expect_error(&c, MT_E_VERSION, "version 5");
    append_file_header(&c.file);
    c.file.data[8] = 0;
    expect_error(&c, MT_E_VERSION, "version 0");
    append_file_header(&c.file);
    c.file.data[12] = 1;
    expect_error(&c, MT_E_CORRUPT, "file header is wrong");
}

/* -- files of versions that count fewer kinds of events -- */

static void test_kinds_of_versions(void **state)
{
    static const int8_t table[] = {1, 1, -3, 1, -5, 1, 1};
    static const uint8_t expected[] = {2, 2, 2, 3, 3, 5, 5};
    (void)state;
    for (uint32_t version = 0; version < sizeof expected; version++)
        assert_int_equal(kinds_in_table(table, sizeof table, version), expected[version]);
    assert_int_equal(kinds_in_table(table, 3, 9), 2);
    for (uint32_t version = 1; version <= 2; version++) /* they have the same kinds */
        assert_int_equal(kinds_of_version(version), MT_REACH + 1);
    assert_int_equal(kinds_of_version(MT_FORMAT_VERSION), MT_KINDS);
}

/* What is said of a file does not change when kinds are added. */
static void test_the_end_has_the_kinds_of_its_version(void **state)
{
    const uint8_t written[] = {MT_ENDING_EXIT, 7, 8, 1, 2, 3, 4, 5};
    struct cursor c = {.p = written, .end = written + sizeof written, .kinds = 2};
    struct rec_end end;
    char text[LINE_MAX_BYTES];
    struct line line = {.text = text};
    (void)state;
    assert_true(get_end(&c, &end) && c.p == c.end);
    dump_end(&line, NO_ID, &end);
    assert_string_equal(text,
                        "end ending=exit new=7 free=8 instructions=1 nanoseconds=2 foreign=3 dropped=4 freed=5");
}

static size_t no_names(void *context, const struct mt_reader *r, const struct mt_frame *f, struct mt_name *names)
{
    (void)context, (void)r, (void)f, (void)names;
    return 0;
}

/* Read a file whose events have `kinds` kinds, and copy it. The whole copy, or nothing where that fails. */
static struct bytes read_counts(const struct bytes *file, uint8_t kinds, struct mt_totals *totals)
{
    const struct mt_namer namer = {no_names, NULL};
    struct bytes copy = {0};
    struct mt_error err;
    int fd = memory_file(file->data, file->size), out = memory_file("", 0);
    struct mt_reader *r = mt_open(memory_path(fd), 0, &err);
    assert_non_null(r);
    r->binary.kinds = kinds;
    if (mt_rewrite_names(r, out, &namer, &err) == MT_OK)
        copy = memory_bytes(out);
    *totals = r->stats.totals;
    mt_close(r);
    close(fd);
    close(out);
    return copy;
}

/* END of the version before, if the table of kinds had one more: its last count is 0, the fields after it are right,
 * and a copy has all counts. */
static void test_fewer_counts(void **state)
{
    struct craft c = {0};
    struct mt_totals totals;
    (void)state;
    put_end(&c.streams[0], &(struct rec_end){.events.kinds = MT_KINDS - 1, .instructions = 7, .foreign = 9});
    add_chunk(&c, (struct chunk_header){.type = CHUNK_END});
    struct bytes none = read_counts(&c.file, MT_KINDS, &totals);
    assert_null(none.data);
    struct bytes copy = read_counts(&c.file, MT_KINDS - 1, &totals);
    assert_int_equal(totals.events[MT_KINDS - 1], 0);
    assert_int_equal(totals.instructions, 7);
    assert_int_equal(totals.foreign, 9);
    struct reading got = read_bytes(copy.data, copy.size, 0);
    assert_int_equal(got.result, MT_END);
    assert_int_equal(got.stats.totals.instructions, 7);
    assert_int_equal(got.stats.totals.foreign, 9);
    reading_free(&got);
    free(copy.data);
    free(c.file.data);
}

/* After a checkpoint that contradicts the events before, no block is known: its free is lost. */
static void test_wrong_checkpoint(void **state)
{
    struct craft c = {0};
    begin_events(&c);
    end_events(&c, 1);
    put_checkpoint(&c.streams[0], &(struct rec_checkpoint){.blocks = 1});
    put_block(&c.streams[0], &(struct rec_block){.slot = 0, .handle = 0, .addr = 8192, .size = 16});
    add_chunk(&c, (struct chunk_header){.type = CHUNK_CHECKPOINT, .first_event = 1, .first_handle = 1});
    buffer_byte(&c.streams[STREAM_TOKENS], 0);
    put_free(&c.streams[STREAM_RARE], &(struct rec_free){0});
    buffer_byte(&c.streams[STREAM_TOKENS], 0);
    put_stop(&c.streams[STREAM_RARE], &(struct rec_stop){});
    add_chunk(&c,
              (struct chunk_header){.type = CHUNK_EVENTS, .events = 1, .first_event = 1, .first_handle = 1});
    struct reading got = read_bytes(c.file.data, c.file.size, MT_OPEN_SALVAGE);
    assert_true(got.count >= 1 && got.events[0].kind == MT_NEW);
    for (size_t i = 1; i < got.count; i++)
        assert_int_equal(got.events[i].kind, MT_LOST);
    reading_free(&got);
    expect_error(&c, MT_E_CORRUPT, "a live block differs from the events before");
}

/* A checkpoint that ends before its last block, and nothing more of it before the next events. */
static void test_unfinished_checkpoint(void **state)
{
    struct craft c = {0};
    (void)state;
    begin_events(&c);
    buffer_byte(&c.streams[STREAM_TOKENS], 0);
    put_new(&c.streams[STREAM_RARE], &(struct rec_new){.slot = 1, .addr = 4096, .size = 16});
    end_events(&c, 2);
    put_checkpoint(&c.streams[0], &(struct rec_checkpoint){.blocks = 2});
    put_block(&c.streams[0], &(struct rec_block){.slot = 0, .handle = 0, .addr = 4096, .size = 16});
    add_chunk(&c, (struct chunk_header){.type = CHUNK_CHECKPOINT, .first_event = 2, .first_handle = 2});
    buffer_byte(&c.streams[STREAM_TOKENS], 0);
    put_free(&c.streams[STREAM_RARE], &(struct rec_free){0});
    buffer_byte(&c.streams[STREAM_TOKENS], 0);
    put_stop(&c.streams[STREAM_RARE], &(struct rec_stop){});
    add_chunk(&c,
              (struct chunk_header){.type = CHUNK_EVENTS, .events = 1, .first_event = 2, .first_handle = 2});
    expect_error(&c, MT_E_CORRUPT, "live blocks are missing before these events");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_wrong_accesses),
        cmocka_unit_test(test_streams_cut_off),
        cmocka_unit_test(test_wrong_segments),
        cmocka_unit_test(test_streams_not_used_up),
        cmocka_unit_test(test_wrong_event_count),
        cmocka_unit_test(test_wrong_records),
        cmocka_unit_test(test_wrong_definitions),
        cmocka_unit_test(test_wrong_mappings),
        cmocka_unit_test(test_odd_modules),
        cmocka_unit_test(test_wrong_base),
        cmocka_unit_test(test_wrong_headers),
        cmocka_unit_test(test_wrong_stream_sizes),
        cmocka_unit_test(test_wrong_end),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_kinds_of_versions),
        cmocka_unit_test(test_the_end_has_the_kinds_of_its_version),
        cmocka_unit_test(test_fewer_counts),
        cmocka_unit_test(test_wrong_checkpoint),
        cmocka_unit_test(test_unfinished_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
