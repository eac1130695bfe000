/* test_tables.c - handles, times, numbers, writes to new blocks, the random choice, the check of the driver table, the
 * clock, firstfit.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/base/clock.h"
#include "drivers/base/latency.h"
#include "drivers/base/numbers.h"
#include "drivers/heap/raw_syscalls.h"
#include "drivers/plan/plan.h"
#include "drivers/run/engine.h"
#include "drivers/supervisor/load_driver.h"
#include "drivers/test/test_units.h"

#include <math.h>
#include <string.h>

static void test_handles_reuse_slots(void **state)
{
    struct handles *h = handles_new(0);
    uint32_t slot;
    assert_int_equal(handles_make(h, 0, &slot), HANDLE_OK);
    assert_int_equal(slot, 0);
    assert_int_equal(handles_make(h, 5000, &slot), HANDLE_OK);
    assert_int_equal(slot, 1);
    assert_int_equal(handles_drop(h, 0, &slot), HANDLE_OK);
    assert_int_equal(slot, 0);
    assert_int_equal(handles_make(h, 7, &slot), HANDLE_OK);
    assert_int_equal(slot, 0);
    assert_int_equal(handles_find(h, 5000, &slot), HANDLE_OK);
    assert_int_equal(slot, 1);
    assert_int_equal(handles_slots(h), 2);
    handles_delete(h);
}

static void test_handles_faults(void **state)
{
    struct handles *h = handles_new(0);
    uint32_t slot;
    assert_int_equal(handles_find(h, 3, &slot), HANDLE_UNKNOWN);
    assert_int_equal(handles_drop(h, UINT64_MAX, &slot), HANDLE_TOO_LARGE);
    assert_int_equal(handles_make(h, HANDLES_LIMIT, &slot), HANDLE_TOO_LARGE);
    assert_int_equal(handles_make(h, HANDLES_LIMIT - 1, &slot), HANDLE_OK);
    assert_int_equal(handles_make(h, HANDLES_LIMIT - 1, &slot), HANDLE_LIVE);
    assert_int_equal(handles_drop(h, HANDLES_LIMIT - 1, &slot), HANDLE_OK);
    assert_int_equal(handles_drop(h, HANDLES_LIMIT - 1, &slot), HANDLE_DEAD);
    assert_int_equal(handles_find(h, HANDLES_LIMIT - 1, &slot), HANDLE_DEAD);
    handles_delete(h);
}

/* One handle on each page is rejected before much memory is taken. */
static void test_handles_too_sparse(void **state)
{
    struct handles *h = handles_new(0);
    enum handle_result r = HANDLE_OK;
    uint64_t i;
    uint32_t slot;
    for (i = 0; i < 1000000 && r == HANDLE_OK; i++)
        r = handles_make(h, i * 4096, &slot);
    assert_int_equal(r, HANDLE_TOO_SPARSE);
    assert_in_range(i, 4096, 8192);
    handles_delete(h);
}

static void test_times_percentiles(void **state)
{
    static struct latency t;
    memset(&t, 0, sizeof t);
    assert_int_equal(latency_at(&t, 500), 0);
    for (uint64_t i = 1; i <= 1000; i++)
        latency_add(&t, i);
    assert_int_equal(latency_at(&t, 10), 10);
    assert_in_range(latency_at(&t, 500), 500, 531);
    assert_in_range(latency_at(&t, 990), 990, 1000);
    assert_int_equal(latency_at(&t, 1000), 1000);
    latency_add(&t, UINT64_MAX);
    assert_int_equal(t.most, UINT64_MAX);
}

static void test_numbers(void **state)
{
    uint64_t n;
    double f;
    assert_true(number_read("18446744073709551615", &n) && n == UINT64_MAX);
    assert_false(number_read("18446744073709551616", &n));
    assert_false(number_read("-1", &n));
    assert_false(number_read("12 ", &n));
    assert_false(number_read("", &n));
    assert_true(bytes_read("64K", &n) && n == 65536);
    assert_true(bytes_read("3g", &n) && n == (uint64_t)3 << 30);
    assert_false(bytes_read("3T", &n));
    assert_false(bytes_read("99999999999999G", &n));
    assert_true(factor_read("1.5x", &f) && f > 1.49 && f < 1.51);
    assert_false(factor_read("0x", &f));
    assert_false(factor_read("4", &f));
    assert_false(factor_read("nanx", &f));
}

static void test_random_is_even(void **state)
{
    uint64_t seed = 1, again = 1, other = 2, ones = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t r = engine_random(&seed);
        assert_int_equal(r, engine_random(&again));
        ones += (uint64_t)__builtin_popcountll(r);
    }
    assert_int_not_equal(engine_random(&other), engine_random(&again));
    assert_in_range(ones, 31000, 33000);
}

enum { BLOCKS = 40, TRIALS = 4000, ROUNDS = 50 };

static bool s_freed[BLOCKS * (ROUNDS + 1)];

static void note_freed(void *ref, uint32_t id)
{
    assert_false(s_freed[id]); /* no two live blocks have the same number */
    s_freed[id] = true;
}

static const struct steve_driver s_frees = {.name = "frees", .free = note_freed};

/* Begin with BLOCKS live blocks after a round, numbered after those of the rounds before. */
static void fill_round(struct engine *e)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        e->blocks[i] = (struct block){.ref = &e->blocks[i], .size = 16, .id = e->first_id + i};
}

static struct engine killing_engine(struct shared *shared, struct block *blocks, uint64_t seed)
{
    *shared = (struct shared){.job = {.facts = {.slots = BLOCKS, .blocks_at_end = BLOCKS}}};
    struct engine e = {.driver = &s_frees, .shared = shared, .blocks = blocks, .random = seed};
    fill_round(&e);
    return e;
}

/* Each block, and each pair of neighbours, is freed equally often, within 5 standard deviations of an even choice
 * of half of the blocks. The seeds are fixed, so the result is, too. */
static void test_kill_is_even(void **state)
{
    static struct shared shared;
    struct block blocks[BLOCKS];
    unsigned one[BLOCKS] = {0}, pair[BLOCKS] = {0};
    for (uint64_t seed = 0; seed < TRIALS; seed++) {
        struct engine e = killing_engine(&shared, blocks, seed);
        memset(s_freed, 0, sizeof s_freed);
        assert_true(engine_kill_blocks(&e, 50));
        assert_int_equal(shared.killed, BLOCKS / 2);
        assert_int_equal(e.kept_count, BLOCKS / 2);
        for (int i = 0; i < BLOCKS; i++) {
            one[i] += s_freed[i];
            pair[i] += s_freed[i] && s_freed[(i + 1) % BLOCKS];
        }
        raw_unmap(e.kept, e.kept_room * sizeof *e.kept);
    }
    const double half = 0.5, both = half * (BLOCKS / 2 - 1) / (BLOCKS - 1);
    for (int i = 0; i < BLOCKS; i++) {
        assert_true(fabs(one[i] - TRIALS * half) < 5 * sqrt(TRIALS * half * (1 - half)));
        assert_true(fabs(pair[i] - TRIALS * both) < 5 * sqrt(TRIALS * both * (1 - both)));
    }
}

/* In each round exactly the requested share is freed, of old and new blocks, and numbers are never equal. */
static void test_kill_over_rounds(void **state)
{
    static struct shared shared;
    struct block blocks[BLOCKS];
    struct engine e = killing_engine(&shared, blocks, 7);
    uint64_t live = 0, dead = 0;
    memset(s_freed, 0, sizeof s_freed);
    for (int round = 0; round < ROUNDS; round++) {
        fill_round(&e);
        live += BLOCKS;
        dead += live * 30 / 100;
        live -= live * 30 / 100;
        assert_true(engine_kill_blocks(&e, 30));
        assert_int_equal(shared.killed, dead);
        assert_int_equal(e.kept_count, live);
        assert_int_equal(e.first_id, (round + 1) * BLOCKS);
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_null(blocks[i].ref);
    }
    for (uint64_t i = 0; i < e.kept_count; i++) {
        assert_false(s_freed[e.kept[i].id]);
        note_freed(NULL, e.kept[i].id);
    }
}

static void test_load_faults(void **state)
{
    struct steve_driver d = steve_driver; /* of firstfit */
    assert_null(load_fault(&d));
    d.version++;
    assert_non_null(strstr(load_fault(&d), "version"));
    d = steve_driver;
    d.size -= 8;
    assert_non_null(strstr(load_fault(&d), "another size"));
    d = steve_driver;
    d.confinement = STEVE_CONFINEMENTS;
    assert_non_null(strstr(load_fault(&d), "confined"));
    d = steve_driver;
    d.name = "a b";
    assert_non_null(strstr(load_fault(&d), "name"));
    d = steve_driver;
    d.free = NULL;
    assert_non_null(strstr(load_fault(&d), "free"));
    d = steve_driver;
    d.flags = STEVE_MOVES;
    d.where = NULL;
    assert_non_null(strstr(load_fault(&d), "moves"));
}

static void test_clock(void **state)
{
    clock_calibrate();
    uint64_t before = clock_wall(), from = clock_ticks(), begin = clock_wall(), end;
    do
        end = clock_wall();
    while (end - begin < 5000000);
    uint64_t took = clock_between(from, clock_ticks()), after = clock_wall();
    assert_true((double)took > (double)(end - begin) * 0.98);
    assert_true((double)took < (double)(after - before) * 1.02);
    assert_int_equal(clock_between(10, 10), 0);
}

static void test_firstfit_fills_and_joins(void **state)
{
    static char heap[4096] __attribute__((aligned(64)));
    struct steve_walk walk;
    void *ref[64];
    int n = 0;
    memset(heap, 0, sizeof heap);
    assert_true(steve_driver.init(heap, sizeof heap));
    while ((ref[n] = steve_driver.malloc(100, 0)))
        assert_in_range((uintptr_t)ref[n++], (uintptr_t)heap, (uintptr_t)heap + sizeof heap - 100);
    assert_int_equal(n, 31);
    for (int i = 0; i < n; i += 2)
        steve_driver.free(ref[i], 0);
    steve_driver.walk(&walk);
    assert_int_equal(walk.chunks, 16);
    assert_null(steve_driver.malloc(300, 0));
    for (int i = 1; i < n; i += 2)
        steve_driver.free(ref[i], 0);
    steve_driver.walk(&walk);
    assert_int_equal(walk.chunks, 1);
    assert_int_equal(walk.largest, sizeof heap - 32);
    assert_non_null(steve_driver.malloc(walk.largest, 0));
    assert_null(steve_driver.malloc(1, 0));
}

/* How many bytes of two pages are written to if bytes from..to of a block at byte `at` are new. */
static int written(int at, uint64_t from, uint64_t to, enum touch touch)
{
    static unsigned char bytes[8192] __attribute__((aligned(4096)));
    int count = 0;
    memset(bytes, 0, sizeof bytes);
    touch_range(bytes + at, from, to, touch);
    for (int i = 0; i < (int)sizeof bytes; i++)
        count += bytes[i] && i >= at + (int)from && i < at + (int)to ? 1 : bytes[i] ? 100 : 0;
    return count;
}

static void test_touch_every_page_once(void **state)
{
    assert_int_equal(written(100, 0, 3000, TOUCH_NONE), 0);
    assert_int_equal(written(100, 0, 3000, TOUCH_PAGES), 1);
    assert_int_equal(written(3000, 0, 2000, TOUCH_PAGES), 2);
    assert_int_equal(written(3000, 0, 1096, TOUCH_PAGES), 1);
    assert_int_equal(written(3000, 500, 2000, TOUCH_PAGES), 2);
    assert_int_equal(written(3000, 2000, 500, TOUCH_PAGES), 0);
    assert_int_equal(written(3000, 0, 2000, TOUCH_FIRST), 1);
    assert_int_equal(written(3000, 500, 2000, TOUCH_FIRST), 0);
    assert_int_equal(written(63, 0, 66, TOUCH_ALL), 3);
}

int run_table_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handles_reuse_slots),
        cmocka_unit_test(test_handles_faults),
        cmocka_unit_test(test_handles_too_sparse),
        cmocka_unit_test(test_times_percentiles),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_touch_every_page_once),
        cmocka_unit_test(test_random_is_even),
        cmocka_unit_test(test_kill_is_even),
        cmocka_unit_test(test_kill_over_rounds),
        cmocka_unit_test(test_load_faults),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_firstfit_fills_and_joins),
    };
    return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
