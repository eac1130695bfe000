/* test_feed_blocks.c - tests of blocks from before the recording, and of those of pools, in the collector's feed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/test/feed_session.h"
#include "ljtrace/protocol/pool_functions.h"

enum { NONE_LEFT = 2000 };

/* -- blocks from before -- */

static void put_end_of_existing(struct session *s, uint64_t blocks, const char *problem)
{
    uint64_t words[3 + 8] = {blocks, 64 * blocks, strlen(problem)};
    memcpy(words + 3, problem, strlen(problem));
    put(s, RAW_EXISTING_END, 0, words, 3 + (uint32_t)((strlen(problem) + 7) / 8));
}

static void existing_blocks_are_those_that_live(void **state)
{
    struct session *s = *state;
    feed_await_existing(s->feed);
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x2000, 1);     /* before the copy; done after it */
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x3000, 100, 2); /* known when the copy is read */
    PUT(s, RAW_EXISTING, 0, 0x1000, 64, 0x2000, 64, 0x3000, 104, 0x4000, 64);
    put_end_of_existing(s, 4, "");
    PUT_EVENT(s, RAW_FREE, 0, RAW_HEAP_C, MT_HOW_CXX_NEW, 0x1000, 3); /* of any family */
    PUT_EVENT(s, RAW_NEW, 0, RAW_HEAP_C, MT_HOW_MALLOC, 0x4000, 60,
              4); /* was made before the copy, and comes after it */
    assert_null(feed_slab(s->feed, s->slab, s->used));
    assert_false(feed_awaits_existing(s->feed));
    assert_null(feed_existing_problem(s->feed));
    struct mt_totals totals;
    mt_writer_totals(s->writer, &totals);
    assert_int_equal(totals.dropped, 0);
    s->used = 0;
    read_back(s);
    /* with the error of the free of 0x2000, since this writer knows nothing of an attach */
    assert_int_equal(s->events, 7);
    assert_event(s, 2, MT_NEW, 1, 0x1000);
    assert_true(s->event[2].implied && s->event[2].beyond);
    assert_event(s, 3, MT_NEW, 2, 0x4000);
    assert_event(s, 4, MT_FREE, 1, 0x1000);
    assert_event(s, 5, MT_FREE, 2, 0x4000);
    assert_true(s->event[5].implied);
    assert_event(s, 6, MT_NEW, 3, 0x4000);
    const struct mt_stack *stack = mt_stack(s->reader, s->event[2].ref);
    assert_string_equal(mt_string(s->reader, mt_frame(s->reader, stack->frame)->function), MT_BEFORE_ATTACH);
    assert_string_equal(mt_info(s->reader, "existing_blocks"), "2");
    assert_string_equal(mt_info(s->reader, "existing_bytes"), "128");
}

static void a_problem_is_kept(void **state)
{
    struct session *s = *state;
    feed_await_existing(s->feed);
    put_end_of_existing(s, 0, "a reason");
    PUT(s, RAW_EXISTING_END, 0, 1, 1, 0); /* a second one changes nothing */
    assert_null(feed_slab(s->feed, s->slab, s->used));
    assert_string_equal(feed_existing_problem(s->feed), "a reason");
    s->used = 0;
    PUT(s, RAW_EXISTING, 0, 0x1000, 64);
    assert_non_null(feed_slab(s->feed, s->slab, s->used)); /* nobody waits for it */
    s->used = 0;
    read_back(s);
    assert_int_equal(s->events, 0);
    assert_string_equal(mt_info(s->reader, "existing_problem"), "a reason");
}

static void an_end_that_does_not_come_is_a_problem(void **state)
{
    struct session *s = *state;
    feed_existing_failed(s->feed); /* they were not asked for */
    assert_null(feed_existing_problem(s->feed));
    feed_await_existing(s->feed);
    feed_existing_failed(s->feed);
    assert_non_null(feed_existing_problem(s->feed));
    read_back(s);
}

/* -- pools -- */

static void put_pool(struct session *s, enum pool_what what, uint64_t pool, uint64_t old, uint64_t block,
                     uint64_t size, uint64_t caller)
{
    const uint64_t words[] = {pool, old, block, size, 1, 0x7000, caller};
    put_record(s, raw_heap_header(RAW_POOL, 0, 0, what, 7), words);
}

static uint32_t live_blocks(const struct session *s)
{
    uint32_t n = 0;
    for (size_t i = 0; i < s->events; i++)
        n += (s->event[i].kind == MT_NEW) - (s->event[i].kind == MT_FREE);
    return n;
}

static void blocks_end_with_their_pool(void **state)
{
    struct session *s = *state;
    put_pool(s, POOL_MAKE, 0x10, 0, 0, 0, 0x8000);
    put_pool(s, POOL_MAKE, 0x20, 0, 0, 0, 0x8000);
    put_pool(s, POOL_ALLOC, 0x10, 0, 0x1000, 16, 0x9000);
    put_pool(s, POOL_ALLOC, 0x10, 0, 0x1010, 16, 0x9000);
    put_pool(s, POOL_ALLOC, 0x20, 0, 0x2000, 16, 0x9000);
    put_pool(s, POOL_RESIZE, 0x20, 0x2000, 0x2100, 32, 0x9000);
    put_pool(s, POOL_FREE, 0, 0x1000, 0, 0, 0x9000); /* the pool is not said */
    put_pool(s, POOL_FREE, 0, 0x1000, 0, 0, 0x9000);
    put_pool(s, POOL_END, 0x10, 0, 0, 0, 0x9000);
    put_pool(s, POOL_MAKE, 0x10, 0, 0, 0, 0x8800); /* at another place */
    put_pool(s, POOL_ALLOC, 0x10, 0, 0x1010, 16, 0x9000);
    put_pool(s, POOL_ALLOC, 0x30, 0, 0x3000, 16, 0x9000); /* nobody saw how it was made */
    put_pool(s, POOL_CLEAR, 0x30, 0, 0, 0, 0x9000);
    read_back(s);
    assert_int_equal(live_blocks(s), 2);
    for (size_t i = 0; i < s->events; i++)
        assert_int_not_equal(s->event[i].kind, MT_BADFREE);
    assert_event(s, 0, MT_NEW, 0, 0x1000);
    assert_int_equal(s->event[0].heap, s->event[2].heap); /* both pools were made at one place */
    const struct mt_event *last = &s->event[s->events - 3];
    assert_int_equal(last->addr, 0x1010);
    assert_int_not_equal(last->heap, s->event[0].heap);
    assert_int_not_equal(last[1].heap, last->heap);
}

/* The table of blocks grows and shrinks, and a block that is given out again has ended. */
static void pools_may_have_many_blocks(void **state)
{
    struct session *s = *state;
    for (uint64_t i = 0; i < NONE_LEFT; i++) {
        put_pool(s, POOL_ALLOC, i % 7, 0, 0x100000 + 32 * (i % 1500), 16, 0x9000);
        assert_null(feed_slab(s->feed, s->slab, s->used));
        s->used = 0;
    }
    for (uint64_t pool = 0; pool < 7; pool++)
        put_pool(s, pool % 2 ? POOL_END : POOL_CLEAR, pool, 0, 0, 0, 0x9000);
    assert_null(feed_slab(s->feed, s->slab, s->used));
    s->used = 0;
    struct mt_totals totals;
    mt_writer_totals(s->writer, &totals);
    assert_int_equal(totals.events[MT_NEW], NONE_LEFT);
    assert_int_equal(totals.events[MT_FREE], NONE_LEFT);
    assert_int_equal(totals.events[MT_BADFREE], 0);
    read_back(s);
}

/* It is not itself the pool: the pool remains what it was. */
static void the_first_block_may_have_the_address_of_the_pool(void **state)
{
    struct session *s = *state;
    put_pool(s, POOL_MAKE, 0x1000, 0, 0, 0, 0x8000);
    put_pool(s, POOL_MAKE, 0x2000, 0, 0x1000, 0, 0x8000);
    put_pool(s, POOL_ALLOC, 0x1000, 0, 0x1000, 16, 0x9000);
    put_pool(s, POOL_ALLOC, 0x1000, 0, 0x1010, 16, 0x9000);
    put_pool(s, POOL_ALLOC, 0x2000, 0, 0x2000, 16, 0x9000);
    put_pool(s, POOL_RESIZE, 0x1000, 0x1000, 0x1020, 16, 0x9000);
    put_pool(s, POOL_ALLOC, 0x1000, 0, 0x1000, 16, 0x9000);
    put_pool(s, POOL_FREE, 0x1000, 0x1000, 0, 0, 0x9000);
    put_pool(s, POOL_ALLOC, 0x1000, 0, 0x1030, 16, 0x9000);
    put_pool(s, POOL_END, 0x1000, 0, 0, 0, 0x9000);
    read_back(s);
    assert_int_equal(s->events, 12);
    assert_int_equal(live_blocks(s), 0);
    for (size_t i = 0; i < s->events; i++)
        assert_int_equal(s->event[i].heap, s->event[0].heap);
    assert_event(s, 7, MT_NEW, 5, 0x1030);
}

static void put_name(struct session *s, uint64_t addr, const char *name)
{
    uint64_t words[2 + 4] = {addr, strlen(name)};
    strncpy((char *)(words + 2), name, 4 * sizeof(uint64_t));
    put_record(s, raw_heap_header(RAW_POOL_NAME, 0, 0, 0, 2 + (uint32_t)(strlen(name) + 7) / 8), words);
}

/* As of talloc: what is in a block ends with it, stays in it when it is resized, and may be moved to another. */
static void a_block_may_be_a_pool(void **state)
{
    struct session *s = *state;
    put_pool(s, POOL_ALLOC, 0, 0, 0x1000, 16, 0x8000);
    put_name(s, 0x1000, "outer");
    put_pool(s, POOL_ALLOC, 0x1000, 0, 0x2000, 16, 0x8100);
    put_pool(s, POOL_ALLOC, 0x2000, 0, 0x3000, 16, 0x8200);
    put_pool(s, POOL_RESIZE, 0x99, 0x2000, 0x4000, 32, 0x8300); /* it is in 0x1000, whatever it says */
    put_pool(s, POOL_ALLOC, 0x2000, 0, 0x5000, 16, 0x8200);     /* another pool, of which nobody knows */
    put_pool(s, POOL_ALLOC, 0x1000, 0, 0x6000, 16, 0x8100);
    put_pool(s, POOL_ALLOC, 0x6000, 0, 0x7000, 16, 0x8100);
    put_pool(s, POOL_MOVE, 0x5000, 0, 0x6000, 0, 0x8100);
    put_pool(s, POOL_FREE, 0, 0x4000, 0, 0, 0x8400);
    put_pool(s, POOL_FREE, 0, 0x1000, 0, 0, 0x8400);
    read_back(s);
    assert_int_equal(live_blocks(s), 3);
    const uint64_t ended[] = {0x2000, 0x4000, 0x3000, 0x1000};
    uint32_t ends = 0;
    for (size_t i = 0; i < s->events; i++)
        if (s->event[i].kind == MT_FREE)
            assert_int_equal(s->event[i].addr, ended[ends++]);
    assert_int_equal(ends, 4);
    assert_int_equal(s->event[1].heap, s->event[4].heap); /* before and after the resize */
    assert_int_not_equal(s->event[1].heap, s->event[2].heap);
}

/* A pool within another ends with it. They may be moved, and what says that they are within one another ends. */
static void pools_within_pools_end(void **state)
{
    struct session *s = *state;
    put_pool(s, POOL_MAKE, 0x10, 0, 0, 0, 0x8000);
    put_pool(s, POOL_MAKE, 0x20, 0, 0x10, 0, 0x8000);
    put_pool(s, POOL_MAKE, 0x30, 0, 0x20, 0, 0x8000);
    put_pool(s, POOL_MAKE, 0x40, 0, 0x10, 0, 0x8000);
    for (uint64_t pool = 0x10; pool <= 0x40; pool += 0x10)
        put_pool(s, POOL_ALLOC, pool, 0, pool << 8, 16, 0x9000);
    put_pool(s, POOL_MOVE, 0, 0, 0x40, 0, 0x9000);
    put_pool(s, POOL_MOVE, 0x30, 0, 0x30, 0, 0x9000); /* into itself: into nothing */
    put_pool(s, POOL_CLEAR, 0x10, 0, 0, 0, 0x9000);
    put_pool(s, POOL_MAKE, 0x20, 0, 0x10, 0, 0x8000);
    put_pool(s, POOL_MAKE, 0x50, 0, 0x20, 0, 0x8000);
    put_pool(s, POOL_MOVE, 0x50, 0, 0x20, 0, 0x9000); /* each in the other */
    put_pool(s, POOL_ALLOC, 0x50, 0, 0x5000, 16, 0x9000);
    put_pool(s, POOL_END, 0x20, 0, 0, 0, 0x9000);
    read_back(s);
    assert_int_equal(live_blocks(s), 2); /* of 0x30 and 0x40 */
    assert_int_equal(s->events, 5 + 3);
}

/* A name more is a heap more; but a program may make names without an end. */
static void pools_have_names(void **state)
{
    struct session *s = *state;
    char name[20];
    for (uint64_t i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "request %d", (int)i);
        put_pool(s, POOL_MAKE, 0x10, 0, 0, 0, 0x8000);
        put_name(s, 0x10, name);
        put_pool(s, POOL_ALLOC, 0x10, 0, 0x1000, 16, 0x9000);
        assert_null(feed_slab(s->feed, s->slab, s->used));
        s->used = 0;
    }
    read_back(s);
    assert_in_range(mt_count_heaps(s->reader), 2000, 2002);
}

static void nonsense_of_pools_is_refused(void **state)
{
    struct session *s = *state;
    put_pool(s, POOL_NAME, 0x10, 0, 0, 0, 0x8000);
    assert_non_null(feed_slab(s->feed, s->slab, s->used));
    s->used = 0;
    uint64_t words[2 + 200] = {0x78, sizeof words - 16};
    memset(words + 2, 'x', sizeof words - 16);
    put_record(s, raw_heap_header(RAW_POOL_NAME, 0, 0, 0, 202), words); /* too long */
    put_pool(s, POOL_MAKE, 0x78, 0, 0, 0, 0x8000);
    put_record(s, raw_heap_header(RAW_POOL_NAME, 0, 0, 0, 202), words);
    put_pool(s, POOL_ALLOC, 0x78, 0, 0x100, 8, 0x9000);
    put_name(s, 0x77, "of nothing");
    put_name(s, 0, "");
    put_pool(s, POOL_MOVE, 0, 0, 0, 0, 0);
    put_pool(s, POOL_RESIZE, 0x77, 0, 0x100, 8, 0);
    put_pool(s, POOL_WHATS, 0x10, 0, 0, 0, 0x8000);
    assert_non_null(feed_slab(s->feed, s->slab, s->used));
    s->used = 0;
    put_pool(s, POOL_ALLOC, 0x10, 0, UINT64_MAX - 4, UINT64_MAX, 0); /* beyond the address space */
    put_pool(s, POOL_FREE, 0x10, 1, 0, 0, 0);
    read_back(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(existing_blocks_are_those_that_live, setup, teardown),
        cmocka_unit_test_setup_teardown(a_problem_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(an_end_that_does_not_come_is_a_problem, setup, teardown),
        cmocka_unit_test_setup_teardown(blocks_end_with_their_pool, setup, teardown),
        cmocka_unit_test_setup_teardown(pools_may_have_many_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_block_may_have_the_address_of_the_pool, setup, teardown),
        cmocka_unit_test_setup_teardown(a_block_may_be_a_pool, setup, teardown),
        cmocka_unit_test_setup_teardown(pools_within_pools_end, setup, teardown),
        cmocka_unit_test_setup_teardown(pools_have_names, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_of_pools_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
