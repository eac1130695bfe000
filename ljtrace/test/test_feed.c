/* test_feed.c - tests of the feed: records of the ring in, events of a memtrace out.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Drives the collector's feed with hand-made slabs and reads the trace back with the real reader; no
 * Valgrind.
 */
#include "ljtrace/test/feed_session.h"
#include "ljtrace/collector/regions.h"

static void accesses_belong_to_blocks(void **state)
{
    struct session *s = *state;
    define_load_store(s);
    PUT(s, RAW_THREAD, 1, 0);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 32, 7, 0x2000, 0x3000);
    put_run(s, 0x10008, 0x7fff0000); /* the second is not heap */
    put_run(s, 0x7fff0000, 0x1001c);
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 9, 0x2000);
    assert_null(feed_slab(s->feed, s->slab, s->used));
    assert_false(feed_ended(s->feed));
    s->used = 0;
    PUT(s, RAW_END, MT_ENDING_EXIT, 11);
    assert_null(feed_slab(s->feed, s->slab, s->used));
    assert_true(feed_ended(s->feed));
    s->used = 0;
    read_back(s);
    assert_int_equal(s->events, 4);
    assert_event(s, 0, MT_NEW, 0, 0x10000);
    assert_event(s, 1, MT_LOAD, 0, 0x10008);
    assert_event(s, 2, MT_STORE, 0, 0x1001c);
    assert_event(s, 3, MT_FREE, 0, 0x10000);
    assert_int_equal(s->event[1].size, 8);
    assert_int_equal(s->event[2].offset, 0x1c);
    assert_int_equal(s->event[0].time, 7);
    assert_int_equal(s->event[3].time, 9 + 2 * 5);
}

static void stacks_run_from_the_root(void **state)
{
    struct session *s = *state;
    static const char name[8] = "leaf";
    PUT(s, RAW_FRAME, 0, 0x2000, raw_pair(4, 0), 0, *(const uint64_t *)name);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 32, 0, 0x2000, 0x3000);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x20000, 32, 0, 0x2000, 0x3000);
    read_back(s);
    assert_int_equal(s->event[0].ref, s->event[1].ref);
    const struct mt_stack *inner = mt_stack(s->reader, s->event[0].ref);
    const struct mt_frame *leaf = mt_frame(s->reader, inner->frame);
    assert_string_equal(mt_string(s->reader, leaf->function), "leaf");
    const struct mt_stack *outer = mt_stack(s->reader, inner->parent);
    assert_int_equal(mt_frame(s->reader, outer->frame)->ip, 0x3000);
    assert_int_equal(outer->parent, 0);
}

static void frames_may_change_their_meaning(void **state)
{
    struct session *s = *state;
    static const char first[8] = "first", second[8] = "second";
    PUT(s, RAW_FRAME, 0, 0x2000, raw_pair(5, 0), 0, *(const uint64_t *)first);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 8, 0, 0x2000);
    PUT(s, RAW_FRAME, 0, 0x2000, raw_pair(6, 0), 0, *(const uint64_t *)second);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x20000, 8, 0, 0x2000);
    read_back(s);
    const struct mt_stack *a = mt_stack(s->reader, s->event[0].ref),
                          *b = mt_stack(s->reader, s->event[1].ref);
    assert_string_equal(mt_string(s->reader, mt_frame(s->reader, a->frame)->function), "first");
    assert_string_equal(mt_string(s->reader, mt_frame(s->reader, b->frame)->function), "second");
}

static const char *leaf_of(struct session *s, uint32_t event)
{
    const struct mt_stack *stack = mt_stack(s->reader, s->event[event].ref);
    return mt_string(s->reader, mt_frame(s->reader, stack->frame)->function);
}

static void stacks_are_written_once(void **state)
{
    struct session *s = *state;
    static const char first[8] = "first", second[8] = "second";
    PUT(s, RAW_FRAME, 0, 0x2000, raw_pair(5, 0), 0, *(const uint64_t *)first);
    PUT(s, RAW_NODE, 6, 0, 0x3000);
    PUT(s, RAW_NODE, 7, 6, 0x2000);
    PUT_EVENT(s, RAW_NEW, 7, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 8, 0);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x20000, 8, 0, 0x2000, 0x3000);
    PUT(s, RAW_FRAME, 0, 0x2000, raw_pair(6, 0), 0, *(const uint64_t *)second);
    PUT_EVENT(s, RAW_NEW, 7, RAW_HEAP_C, MT_HOW_MALLOC, 0x30000, 8, 0);
    PUT(s, RAW_NODE, 7, 0, 0x3000);
    PUT_EVENT(s, RAW_FREE, 7, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 0);
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x20000, 0, 0x3000);
    read_back(s);
    assert_int_equal(s->event[0].ref, s->event[1].ref);
    assert_string_equal(leaf_of(s, 0), "first");
    assert_string_equal(leaf_of(s, 2), "second");
    assert_int_equal(s->events, 5);
    assert_int_equal(s->event[3].kind, MT_FREE);
}

/* Stacks from the innermost frame: the allocation function is of the recorder's library, and so is code further out. */
static void frames_of_the_recorder_are_left_out(void **state)
{
    struct session *s = *state;
    uint64_t path[3] = {0};
    memcpy(path, "/x/libljtrace-native.so", 23);
    PUT(s, RAW_FRAME, 0, 0x2000, raw_pair(0, 23), 0, path[0], path[1], path[2]);
    PUT(s, RAW_FRAME, 0, 0x2100, raw_pair(0, 23), 0, path[0], path[1], path[2]);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 8, 0, 0x2000, 0x3000, 0x2100, 0x4000);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x20000, 8, 0, 0x2000, 0x4000);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x30000, 8, 0, 0x5000, 0x2000, 0x4000);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x40000, 8, 0, 0x6000, 0x2000, 0x4000);
    read_back(s);
    static const uint64_t expected[4][4] = {
        {0x2000, 0x3000, 0x4000}, {0x2000, 0x4000}, {0x5000, 0x4000}, {0x6000, 0x4000}};
    for (size_t i = 0; i < 4; i++) {
        uint32_t id = s->event[i].ref;
        for (size_t k = 0; expected[i][k]; k++, id = mt_stack(s->reader, id)->parent)
            assert_int_equal(mt_frame(s->reader, mt_stack(s->reader, id)->frame)->ip, expected[i][k]);
        assert_int_equal(id, 0);
    }
}

static void a_request_for_pages_is_answered_once(void **state)
{
    struct session *s = *state;
    static const char name[8] = "loaded";
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 8, 0, 0x2000);
    put_record(s, raw_heap_header(RAW_REGION, 0, 0, RAW_REGION_MAPPED, 3),
               (uint64_t[]){0x1000, 0x5000, 0x2000});
    put_record(s, raw_heap_header(RAW_REGION, 0, 0, RAW_REGION_UNMAPPED, 2), (uint64_t[]){0x2000, 0x1000});
    PUT(s, RAW_PAGES, 0, 9, 6, *(const uint64_t *)name);
    assert_null(feed_slab(s->feed, s->slab, s->used));
    const struct regions *r = feed_regions(s->feed);
    assert_int_equal(r->count, 2);
    assert_true(r->of[0].start == 0x1000 && r->of[0].size == 0x1000 && r->of[1].start == 0x3000);
    assert_int_not_equal(r->of[0].stack, 0);
    struct feed_pages asked = feed_take_pages(s->feed);
    assert_true(asked.asked && !asked.end);
    assert_string_equal(asked.name, "loaded");
    assert_false(feed_take_pages(s->feed).asked);
    s->used = 0;
    put_record(s, raw_heap_header(RAW_REGION, 0, 0, RAW_REGION_DETACHED, 2), (uint64_t[]){0x3000, 0});
    PUT(s, RAW_PAGES, 1, 9, 0);
    assert_null(feed_slab(s->feed, s->slab, s->used));
    assert_int_equal(feed_regions(s->feed)->count, 1);
    assert_true(feed_take_pages(s->feed).end);
    s->used = 0;
    put_record(s, raw_heap_header(RAW_REGION, 0, 0, RAW_REGIONS, 2), (uint64_t[]){0, 0});
    assert_non_null(feed_slab(s->feed, s->slab, s->used));
    s->used = 0;
    read_back(s);
}

static void accesses_inside_allocators_are_dropped(void **state)
{
    struct session *s = *state;
    define_load_store(s);
    PUT(s, RAW_THREAD, 1, 0);
    PUT_EVENT(s, RAW_NEW, 0, 0x5000, MT_HOW_LUA, 0x10000, 32, 0);
    PUT(s, RAW_ENTER, 0, 0);
    put_run(s, 0x10000, 0x10000);
    PUT(s, RAW_THREAD, 2, 0);
    put_run(s, 0x10000, 0x10004); /* another thread runs meanwhile */
    PUT(s, RAW_THREAD, 1, 0);
    put_run(s, 0x10000, 0x10000);
    PUT(s, RAW_LEAVE, 0, 0);
    put_run(s, 0x10010, 0x10014);
    read_back(s);
    assert_int_equal(s->events, 5);
    assert_event(s, 1, MT_LOAD, 0, 0x10000);
    assert_int_equal(s->event[1].thread, 2);
    assert_event(s, 2, MT_STORE, 0, 0x10004);
    assert_event(s, 3, MT_LOAD, 0, 0x10010);
    assert_int_equal(s->event[3].thread, 1);
}

/* An allocator function may call another one: accesses count again when the outermost call has ended. */
static void calls_of_allocators_are_nested(void **state)
{
    struct session *s = *state;
    define_load_store(s);
    PUT_EVENT(s, RAW_NEW, 0, 0x5000, MT_HOW_LUA, 0x10000, 32, 0);
    PUT(s, RAW_ENTER, 0, 0);
    PUT(s, RAW_ENTER, 0, 0);
    PUT(s, RAW_LEAVE, 0, 0);
    put_run(s, 0x10000, 0x10004);
    PUT(s, RAW_LEAVE, 0, 0);
    PUT(s, RAW_LEAVE, 0, 0); /* of a call that had begun before the recording */
    put_run(s, 0x10010, 0x10014);
    read_back(s);
    assert_int_equal(s->events, 3);
    assert_event(s, 1, MT_LOAD, 0, 0x10010);
    assert_event(s, 2, MT_STORE, 0, 0x10014);
}

/* Put a segment of one load, whose longer form is that of define_load_store. */
static void put_begun_run(struct session *s, uint64_t a)
{
    s->used = (size_t)(mt_stream_put_word(mt_stream_put_id(s->slab + s->used, 1), a) - s->slab);
}

static void a_segment_may_become_longer_after_it_was_met(void **state)
{
    struct session *s = *state;
    size_t fed, before;
    define_load_store(s);
    PUT(s, RAW_DEFINE, 0, raw_pair(5, 1), 0x1000, raw_pair(8, RAW_LOAD), raw_pair(0, 0));
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 32, 7, 0x2000, 0x3000);
    put_begun_run(s, 0x10000);
    before = s->used;
    put_begun_run(s, 0x10008);
    assert_null(feed_records(s->feed, s->slab, s->used, FEED_GROWING, &fed));
    assert_int_equal(fed, before);
    s->used = before;
    put_run(s, 0x10008, 0x1001c);
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 9, 0x2000);
    assert_null(feed_records(s->feed, s->slab + fed, s->used - fed, FEED_GROWING, &fed));
    assert_int_equal(before + fed, s->used);
    s->used = 0;
    read_back(s);
    assert_int_equal(s->events, 5);
    assert_event(s, 1, MT_LOAD, 0, 0x10000);
    assert_event(s, 2, MT_LOAD, 0, 0x10008);
    assert_event(s, 3, MT_STORE, 0, 0x1001c);
}

static void a_segment_may_be_cut_at_the_end(void **state)
{
    struct session *s = *state;
    size_t fed, before;
    define_load_store(s);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 32, 7, 0x2000, 0x3000);
    put_run(s, 0x10008, 0x1001c);
    before = s->used;
    put_run(s, 0x10008, 0x1001c);
    s->used -= MT_STREAM_WORD; /* the longer number is there, the words are not all there */
    assert_null(feed_records(s->feed, s->slab, s->used, FEED_CUT, &fed));
    assert_int_equal(fed, before);
    s->used = 0;
    read_back(s);
    assert_int_equal(s->events, 3);
}

/* Put a segment of `count` loads of a byte, all from one word. */
static void put_segment(struct session *s, uint32_t count)
{
    uint64_t words[1 + 3 * (MT_SEGMENT_MOST + 1)] = {raw_pair(count, 1)};
    for (uint32_t i = 0; i < count; i++) {
        words[1 + 3 * i] = 0x1000 + i;
        words[2 + 3 * i] = raw_pair(1, RAW_LOAD);
        words[3 + 3 * i] = raw_pair(i, 0);
    }
    put(s, RAW_DEFINE, 0, words, 1 + 3 * count);
}

static void segments_have_a_largest_length(void **state)
{
    struct session *s = *state;
    put_segment(s, MT_SEGMENT_MOST);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 100, 0);
    s->used = (size_t)(mt_stream_put_word(mt_stream_put_id(s->slab + s->used, 0), 0x10000) - s->slab);
    assert_null(feed_slab(s->feed, s->slab, s->used));
    s->used = 0;
    put_segment(s, MT_SEGMENT_MOST + 1);
    assert_non_null(feed_slab(s->feed, s->slab, s->used));
    s->used = 0;
    read_back(s);
    assert_int_equal(s->events, 1 + MT_SEGMENT_MOST);
    assert_event(s, MT_SEGMENT_MOST, MT_LOAD, 0, 0x10000 + MT_SEGMENT_MOST - 1);
}

static void accesses_can_be_switched_off(void **state)
{
    struct session *s = *state;
    define_load_store(s);
    PUT(s, RAW_SWITCH, 0, 0);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 32, 0);
    put_run(s, 0x10000, 0x10004);
    PUT(s, RAW_TOUCH, RAW_STORE, 0x10000, 8);
    PUT(s, RAW_SWITCH, 1, 0);
    put_run(s, 0x10008, 0x1000c);
    read_back(s);
    assert_int_equal(s->events, 3);
    assert_event(s, 1, MT_LOAD, 0, 0x10008);
}

/* 0x5000 and 0x5007 use the same slot alternately. The C heap has its slot from the start. */
static void slots_are_numbers_of_heaps(void **state)
{
    struct session *s = *state;
    PUT_EVENT(s, RAW_NEW, 0, 0x5000, MT_HOW_LUA, 0x10000, 32, 1);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_CALLOC, 0x20000, 32, 2);
    PUT_EVENT(s, RAW_NEW, 0, 0x5007, MT_HOW_LUA, 0x30000, 32, 3);
    PUT_EVENT(s, RAW_RESIZE, 0, 0x5007, MT_HOW_LUA, 0x30000, 0x40000, 64, 4);
    PUT_EVENT(s, RAW_FREE, 0, 0x5000, MT_HOW_LUA, 0x10000, 5);
    read_back(s);
    assert_int_equal(s->events, 5);
    assert_int_equal(s->event[1].how, MT_HOW_CALLOC);
    assert_int_equal(s->event[1].heap, 0);
    assert_int_equal(s->event[3].heap, s->event[2].heap);
    assert_int_equal(s->event[4].heap, s->event[0].heap);
    assert_int_not_equal(s->event[2].heap, s->event[0].heap);
    assert_int_equal(s->event[4].kind, MT_FREE);
}

/* A free of an address without a block is an error, unless the allocator has functions that are not observed. */
static void blocks_that_were_not_observed(void **state)
{
    struct session *s = *state;
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOWS | RAW_HOW_UNKNOWN, 0x10000, 1);
    PUT_EVENT(s, RAW_RESIZE, 0, RAW_HEAP_C, MT_HOW_MALLOC | RAW_HOW_UNKNOWN, 0x20000, 0x30000, 64, 2);
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOW_CXX_NEW | RAW_HOW_UNKNOWN, 0x30000, 3);
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x30000, 4);
    read_back(s);
    assert_int_equal(s->events, 4);
    assert_event(s, 0, MT_NEW, 0, 0x30000);
    assert_int_equal(s->event[1].kind, MT_BADFREE); /* delete of a block of malloc */
    assert_event(s, 2, MT_FREE, 0, 0x30000);
    assert_int_equal(s->event[3].kind, MT_BADFREE);
}

static void closed_heaps_free_their_blocks(void **state)
{
    struct session *s = *state;
    PUT_EVENT(s, RAW_NEW, 0, 0x5000, MT_HOW_LUA, 0x10000, 32, 0);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x20000, 32, 0);
    PUT_EVENT(s, RAW_NEW, 0, 0x5000, MT_HOW_LUA, 0x30000, 32, 0);
    PUT(s, RAW_CLOSE, 0, 0x5000, 3);
    PUT_EVENT(s, RAW_NEW, 0, 0x5000, MT_HOW_LUA, 0x40000, 32, 0); /* the same pointer, another state */
    read_back(s);
    assert_int_equal(s->events, 6);
    assert_int_equal(s->event[3].kind, MT_FREE);
    assert_int_equal(s->event[4].kind, MT_FREE);
    assert_int_not_equal(s->event[3].handle, 1);
    assert_int_not_equal(s->event[4].handle, 1);
    assert_int_not_equal(s->event[5].heap, s->event[0].heap);
    assert_int_equal(mt_heap(s->reader, s->event[5].heap)->id, 0x5000);
}

static void system_calls_touch_what_is_heap(void **state)
{
    struct session *s = *state;
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 32, 0);
    PUT(s, RAW_TOUCH, RAW_STORE, 0x10008, 100); /* more than the block has */
    PUT(s, RAW_TOUCH, RAW_LOAD, 0x7fff0000, 8);
    read_back(s);
    assert_int_equal(s->events, 2);
    assert_event(s, 1, MT_STORE, 0, 0x10008);
    assert_int_equal(s->event[1].size, 24);
    assert_true(s->event[1].kernel);
}

static void frees_have_their_function(void **state)
{
    struct session *s = *state;
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_CXX_NEW, 0x10000, 32, 0);
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 0);
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x10000, 0);
    read_back(s);
    assert_int_equal(s->events, 4);
    assert_int_equal(s->event[1].kind, MT_BADFREE);
    assert_int_equal(s->event[1].how, MT_BADFREE_MISMATCH);
    assert_event(s, 2, MT_FREE, 0, 0x10000);
    assert_int_equal(s->event[3].kind, MT_BADFREE);
    assert_int_equal(s->event[3].how, MT_BADFREE_DOUBLE);
}

static void exec_is_an_ending_unless_it_fails(void **state)
{
    struct session *s = *state;
    PUT(s, RAW_EXEC, 1, 1);
    PUT(s, RAW_TOUCH, RAW_LOAD, 0x7fff0000, 8); /* the kernel reads the new program's arguments */
    assert_null(feed_slab(s->feed, s->slab, s->used));
    assert_int_equal(feed_ending(s->feed), MT_ENDING_EXEC);
    s->used = 0;
    PUT(s, RAW_EXEC, 0, 2);
    PUT(s, RAW_MARK, 0, 2, 4, 0x6b72616d);
    assert_null(feed_slab(s->feed, s->slab, s->used));
    assert_int_equal(feed_ending(s->feed), MT_ENDING_KILLED);
    s->used = 0;
    read_back(s);
    assert_event(s, 0, MT_MARK, s->event[0].handle, s->event[0].addr);
    assert_string_equal(mt_string(s->reader, s->event[0].ref), "mark");
}

static void an_unknown_ending_is_an_ending(void **state)
{
    struct session *s = *state;
    PUT(s, RAW_END, MT_ENDINGS, 1);
    assert_null(feed_slab(s->feed, s->slab, s->used));
    assert_true(feed_ended(s->feed));
    assert_int_equal(feed_ending(s->feed), MT_ENDING_UNKNOWN);
    s->used = 0;
    read_back(s);
}

/* Feeding a record of these words is an error. */
static void assert_refused(struct session *s, const uint64_t *words, size_t bytes)
{
    uint8_t *copy = malloc(bytes); /* with cmocka's malloc, sanitizers would not see reads beyond its end */
    memcpy(copy, words, bytes);
    assert_non_null(feed_slab(s->feed, copy, bytes));
    free(copy);
}

static void nonsense_is_refused(void **state)
{
    struct session *s = *state;
    const uint64_t unknown = raw_header(RAW_TYPES, 0, 0), no_segment = 0;
    const uint64_t beyond[2] = {raw_header(RAW_NEW, 0, 100), 1};
    const uint64_t short_new[2] = {raw_header(RAW_NEW, 0, 1), 1};
    const uint64_t bad_kind[5] = {raw_header(RAW_DEFINE, 0, 4), raw_pair(1, 1), 0x1000, raw_pair(4, 77), 0};
    const uint64_t bad_text[4] = {raw_header(RAW_FRAME, 0, 3), 1, raw_pair(~0U, ~0U), 0};
    const uint64_t bad_slot[2] = {raw_header(RAW_SLOT, RING_HEAP_SLOTS, 1), 0x5000};
    const uint64_t state_change[3] = {raw_state_header()};
    const uint64_t whole[2] = {raw_header(RAW_SLOT, 0, 1), 0x5000};
    const uint64_t large[RING_MARGIN_BYTES / 8 + 1] = {raw_header(RAW_POINTERS, 0, RING_MARGIN_BYTES / 8)};
    assert_refused(s, large, sizeof large);
    assert_refused(s, bad_slot, sizeof bad_slot);
    assert_refused(s, &unknown, sizeof unknown);
    assert_refused(s, &no_segment, sizeof no_segment);
    assert_refused(s, beyond, sizeof beyond);
    assert_refused(s, short_new, sizeof short_new);
    assert_refused(s, bad_kind, sizeof bad_kind);
    assert_refused(s, bad_text, sizeof bad_text);
    for (size_t cut = 1; cut < RAW_STATE_BYTES; cut++)
        assert_refused(s, state_change, cut);
    for (size_t cut = 1; cut < sizeof whole; cut++)
        assert_refused(s, whole, cut);
    read_back(s);
    assert_int_equal(s->events, 0);
}

/* Declared heaps: by number, renumbered, and trimmed to a range. */
static void declared_heaps_are_cut_and_renamed(void **state)
{
    struct session *s = *state;
    PUT(s, RAW_HEAP, RAW_KIND_CUSTOM, 0x77, 0);
    PUT(s, RAW_HEAP, RAW_KIND_MMAP, RAW_HEAP_MMAP, 0);
    PUT_EVENT(s, RAW_NEW, 0, 0x77, MT_HOW_CUSTOM, 0x1000, 100, 1);
    PUT(s, RAW_RENAME, 0, 0x77, 0x88);
    PUT(s, RAW_TRIM, 0, 0x88, 0x1000, 40, 2);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_MMAP, MT_HOW_CUSTOM, 0x10000, 0x3000, 3);
    PUT(s, RAW_UNMAP, 0, RAW_HEAP_MMAP, 0x12000, 0x1000, 4);
    PUT(s, RAW_REMAP, 0, RAW_HEAP_MMAP, 0x10000, 0x2000, 0x20000, 0x5000, 5);
    PUT(s, RAW_CLOSE, 0, 0x88, 6);
    read_back(s);
    assert_int_equal(s->events, 6);
    assert_event(s, 0, MT_NEW, 0, 0x1000);
    assert_event(s, 1, MT_RESIZE, 0, 0x1000);
    assert_event(s, 2, MT_NEW, 1, 0x10000);
    assert_event(s, 3, MT_RESIZE, 1, 0x10000);
    assert_event(s, 4, MT_RESIZE, 1, 0x20000);
    assert_event(s, 5, MT_FREE, 0, 0x1000);
    assert_int_equal(s->event[5].size, 40);
}

/* The first number of a renamed heap is free for another; the second means it, whatever that meant before. */
static void a_renamed_heap_leaves_its_number(void **state)
{
    struct session *s = *state;
    PUT_EVENT(s, RAW_NEW, 0, 0x5000, MT_HOW_LUA, 0x10000, 8, 0);
    PUT(s, RAW_RENAME, 0, 0x5000, 0x6000);
    PUT_EVENT(s, RAW_NEW, 0, 0x5000, MT_HOW_LUA, 0x20000, 8, 0);
    PUT_EVENT(s, RAW_NEW, 0, 0x6000, MT_HOW_LUA, 0x30000, 8, 0);
    PUT(s, RAW_RENAME, 0, 0x5000, 0x6000);
    PUT_EVENT(s, RAW_NEW, 0, 0x6000, MT_HOW_LUA, 0x40000, 8, 0);
    PUT(s, RAW_RENAME, 0, 0x5000, 0x7000); /* nothing is in it */
    PUT_EVENT(s, RAW_NEW, 0, 0x7000, MT_HOW_LUA, 0x50000, 8, 0);
    read_back(s);
    const uint32_t heap[] = {1, 2, 1, 2, 3};
    assert_int_equal(s->events, 5);
    for (size_t i = 0; i < s->events; i++)
        assert_int_equal(s->event[i].heap, heap[i]);
}

static void focus_is_each_threads_own(void **state)
{
    struct session *s = *state;
    define_load_store(s);
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x1000, 100, 1);
    put(s, RAW_THREAD, 1, NULL, 0);
    put(s, RAW_FOCUS, 0, NULL, 0);
    put_run(s, 0x1000, 0x1008);
    put(s, RAW_THREAD, 2, NULL, 0);
    put_run(s, 0x1010, 0x1018);
    put(s, RAW_THREAD, 1, NULL, 0);
    put_run(s, 0x1020, 0x1028);
    read_back(s);
    assert_int_equal(s->events, 3);
    assert_event(s, 1, MT_LOAD, 0, 0x1010);
    assert_event(s, 2, MT_STORE, 0, 0x1018);
}

static void reports_are_requested_once(void **state)
{
    struct session *s = *state;
    put(s, RAW_REPORT, 1, NULL, 0);
    assert_null(feed_slab(s->feed, s->slab, s->used));
    s->used = 0;
    assert_int_equal(feed_take_request(s->feed), FEED_SNAPSHOT);
    assert_int_equal(feed_take_request(s->feed), FEED_NONE);
    read_back(s);
}

static void put_name(struct session *s, uint64_t key, const char *text)
{
    uint64_t word = 0;
    memcpy(&word, text, strlen(text));
    PUT(s, RAW_NAME, 0, key, strlen(text), word);
}

/* Write two objects and a dead one. A link to an address without object is ignored, and so is an object
 * written twice. */
static void put_snapshot(struct session *s)
{
    PUT(s, RAW_SNAPSHOT, 0, 0x88, 5, 300, 100, 1, 'u');
    put_name(s, 77, "key");
    PUT(s, RAW_OBJECT, MT_TYPE_TAB | 1 << 9, 0x1000, 120, 0);
    PUT(s, RAW_OBJECT, MT_TYPE_CDATA, 0x2000, 60, 77);
    PUT(s, RAW_OBJECT, MT_TYPE_TAB | 1 << 8, 0x3000, 20, 0);
    PUT(s, RAW_OBJECT, MT_TYPE_TAB, 0x1000, 500, 0);
    PUT(s, RAW_LINKS, 0, 0x1000, 0x2000, MT_LINK_VALUE | 77 << 8, 0x9999, MT_LINK_OTHER, 0x2000,
        MT_LINK_ARRAY | 1 << 7 | 12 << 8);
    PUT(s, RAW_SNAPSHOT_END, 0, 0);
}

static void snapshots_are_numbered(void **state)
{
    struct session *s = *state;
    struct mt_error err = {0};
    char path[64];
    put_snapshot(s);
    read_back(s);
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->fd);
    mt_close(s->reader);
    const struct mt_event *batch;
    size_t n;
    s->reader = mt_open(path, MT_OPEN_SNAPSHOTS, &err);
    while (mt_next(s->reader, &batch, &n) == MT_MORE)
        ;
    const struct mt_snapshot *u = mt_snapshot(s->reader, 0);
    assert_true(u && u->n_objects == 3 && u->n_links == 2 && u->total == 300 && u->internal == 100);
    assert_true(u->objects[0].root && !u->objects[0].dead && u->objects[2].dead && u->objects[1].size == 60);
    assert_true(u->links[0].to == 1 && u->links[0].kind == MT_LINK_VALUE && !u->links[0].weak);
    assert_int_equal(u->links[0].name, u->objects[1].name);
    assert_true(u->links[1].kind == MT_LINK_ARRAY && u->links[1].weak && u->links[1].name == 12);
}

static void assert_state(const struct session *s, size_t i, uint64_t time, uint32_t heap, enum mt_vm vm)
{
    assert_true(s->event[i].kind == MT_STATE && s->event[i].how == vm);
    assert_true(s->event[i].time == time && s->event[i].heap == heap);
}

static void states_are_written_when_they_change(void **state)
{
    struct session *s = *state;
    const uint64_t states = MT_VM_C | MT_VM_GC << 4 | MT_VM_INTERP << 8 | MT_VM_EXIT << 12; /* -1 to -4 */
    PUT(s, RAW_MACHINE, 4, 0x1000, 0xaa, states);
    PUT(s, RAW_MACHINE, 4, 0x2000, 0xbb, states);
    put_state(s, 0x1000, -1, 10);
    put_state(s, 0x1000, -1, 11); /* not a change */
    put_state(s, 0x3000, -1, 12); /* of no Lua state */
    put_state(s, 0x2000, 65535, 13);
    put_state(s, 0x1000, -3, 14);
    put_state(s, 0x1000, -9, 15); /* not a known state */
    PUT(s, RAW_MACHINE, 4, 0x1000, 0xbb, states);
    put_state(s, 0x1000, -4, 16);
    PUT(s, RAW_MACHINE, 0, 0x1000, 0xbb, 0);
    put_state(s, 0x1000, -1, 17); /* it is gone */
    put_state(s, 0x2000, -2, 18);
    read_back(s);
    assert_state(s, 0, 10, 1, MT_VM_C);
    assert_state(s, 1, 13, 2, MT_VM_TRACE);
    assert_int_equal(s->event[1].ref, 65535);
    assert_state(s, 2, 14, 1, MT_VM_INTERP);
    assert_state(s, 3, 15, 1, MT_VM_C);
    assert_state(s, 4, 16, 2, MT_VM_EXIT);
    assert_state(s, 5, 18, 2, MT_VM_GC);
    assert_int_equal(s->events, 6);
}

/* A negative state is a known one if the machine has declared so many states; any other one is C code. */
static void undeclared_states_are_c(void **state)
{
    struct session *s = *state;
    const uint64_t states = MT_VM_GC | MT_VM_INTERP << 4 | (uint64_t)MT_VM_EXIT << 8;
    PUT(s, RAW_MACHINE, 2, 0x1000, 0xaa, states);
    put_state(s, 0x1000, -2, 10);
    put_state(s, 0x1000, -3, 11);
    put_state(s, 0x1000, -1, 12);
    put_state(s, 0x1000, INT32_MIN, 13);
    read_back(s);
    assert_int_equal(s->events, 4);
    assert_state(s, 0, 10, 1, MT_VM_INTERP);
    assert_state(s, 1, 11, 1, MT_VM_C);
    assert_state(s, 2, 12, 1, MT_VM_GC);
    assert_state(s, 3, 13, 1, MT_VM_C);
}

/* Define the Lua frame that a key means from now on. */
static void put_lua_frame(struct session *s, uint64_t key, uint32_t line)
{
    PUT(s, RAW_LUAFRAME, 0, key, key, raw_pair(line, 1), raw_pair(MT_FRAME_LUA, 0), raw_pair(4, 0),
        'n' | 'a' << 8);
}

static void calls_have_the_line_that_their_key_means_now(void **state)
{
    struct session *s = *state;
    put_lua_frame(s, 0x2000, 10);
    PUT(s, RAW_CALL, 0, 0x2000);
    put_lua_frame(s, 0x2000, 11);
    PUT(s, RAW_CALL, 0, 0x2000);
    PUT(s, RAW_CALL, 0, 0x2000); /* readers know its line */
    read_back(s);
    assert_int_equal(s->events, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(s->event[i].kind, MT_CALL);
        assert_int_equal(mt_frame(s->reader, mt_stack(s->reader, s->event[i].ref)->frame)->line, 10 + i);
    }
}

/* The time of a trace is that of all instructions so far: those of the segments, and the others that the tool counts. */
static void traces_have_the_time_when_they_are_met(void **state)
{
    struct session *s = *state;
    define_load_store(s);
    PUT_EVENT(s, RAW_NEW, 0, 0x5000, MT_HOW_LUA, 0x10000, 32, 0);
    put_run(s, 0x10000, 0x10008);
    put_run(s, 0x10000, 0x10008);
    PUT(s, RAW_TRACE, 0, 0x5000, 7, 0x3000, 64, 100, 0);
    read_back(s);
    const struct mt_trace *t = mt_trace(s->reader, 0);
    assert_true(t && t->number == 7 && t->addr == 0x3000 && t->size == 64 && t->heap == 1);
    assert_int_equal(t->time, 100 + 2 * 5);
}

static void samples_are_weighed(void **state)
{
    struct session *s = *state;
    PUT(s, RAW_SAMPLE, MT_VM_GC, 0x88, 40, 1000, 0x5000);
    PUT(s, RAW_SAMPLE, MT_VM_C, 0, 80, 2000);
    read_back(s);
    assert_int_equal(s->events, 2);
    assert_true(s->event[0].kind == MT_SAMPLE && s->event[0].size == 1000 && s->event[0].heap == 1);
    assert_true(s->event[1].size == 2000 && s->event[1].heap == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(accesses_belong_to_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(stacks_run_from_the_root, setup, teardown),
        cmocka_unit_test_setup_teardown(frames_may_change_their_meaning, setup, teardown),
        cmocka_unit_test_setup_teardown(stacks_are_written_once, setup, teardown),
        cmocka_unit_test_setup_teardown(frames_of_the_recorder_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_request_for_pages_is_answered_once, setup, teardown),
        cmocka_unit_test_setup_teardown(accesses_inside_allocators_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_of_allocators_are_nested, setup, teardown),
        cmocka_unit_test_setup_teardown(a_segment_may_become_longer_after_it_was_met, setup, teardown),
        cmocka_unit_test_setup_teardown(a_segment_may_be_cut_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(segments_have_a_largest_length, setup, teardown),
        cmocka_unit_test_setup_teardown(accesses_can_be_switched_off, setup, teardown),
        cmocka_unit_test_setup_teardown(slots_are_numbers_of_heaps, setup, teardown),
        cmocka_unit_test_setup_teardown(blocks_that_were_not_observed, setup, teardown),
        cmocka_unit_test_setup_teardown(closed_heaps_free_their_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(system_calls_touch_what_is_heap, setup, teardown),
        cmocka_unit_test_setup_teardown(frees_have_their_function, setup, teardown),
        cmocka_unit_test_setup_teardown(exec_is_an_ending_unless_it_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_ending_is_an_ending, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(declared_heaps_are_cut_and_renamed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_renamed_heap_leaves_its_number, setup, teardown),
        cmocka_unit_test_setup_teardown(focus_is_each_threads_own, setup, teardown),
        cmocka_unit_test_setup_teardown(reports_are_requested_once, setup, teardown),
        cmocka_unit_test_setup_teardown(snapshots_are_numbered, setup, teardown),
        cmocka_unit_test_setup_teardown(states_are_written_when_they_change, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_have_the_line_that_their_key_means_now, setup, teardown),
        cmocka_unit_test_setup_teardown(traces_have_the_time_when_they_are_met, setup, teardown),
        cmocka_unit_test_setup_teardown(undeclared_states_are_c, setup, teardown),
        cmocka_unit_test_setup_teardown(samples_are_weighed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
