/* test_kernels.c - tests of parts of the kernels that Python tests do not reach directly.
 *
 * The map of live handles and the set of ranges are compared with brute force, numbers are tested at the limits of
 * their ranges, and the checker gets events that a correct reader never delivers, one case for each rule. Sums over the
 * parts of a run are followed while the parts become wider.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "memtrace/base/array.h"
#include "steve/kernels/accesses/gc_time.h"
#include "steve/kernels/base/handle_map.h"
#include "steve/kernels/base/intervals.h"
#include "steve/kernels/base/text_writer.h"
#include "steve/kernels/base/used_bytes.h"
#include "steve/kernels/base/walk.h"
#include "steve/kernels/lives/profile.h"
#include "steve/kernels/lives/site_rules.h"
#include "steve/kernels/totals/check.h"

#define HANDLES 3000
#define RANGES 400

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Handles are added and removed at random; indices stay below the greatest number that lived at once. */
static void test_handle_map(void **unused)
{
    static uint32_t index_of[HANDLES];
    static bool live[HANDLES];
    struct handle_map map;
    uint32_t random = 1, most = 0, now = 0;

    assert_true(handle_map_init(&map));
    for (int i = 0; i < 200000; i++) {
        uint32_t h = next_random(&random) % HANDLES;
        uint64_t handle = (uint64_t)h * 0x100000001u;

        assert_int_equal(handle_map_find(&map, handle), live[h] ? index_of[h] : HANDLE_MAP_NONE);
        if (live[h]) {
            assert_int_equal(handle_map_remove(&map, handle), index_of[h]);
            now--;
        } else {
            index_of[h] = handle_map_add(&map, handle);
            now++;
        }
        live[h] = !live[h];
        most = now > most ? now : most;
        assert_true(!live[h] || index_of[h] < most);
    }
    assert_int_equal(map.live, now);
    handle_map_free(&map);
}

static bool any_overlap(const struct interval *ranges, uint64_t start, uint64_t last)
{
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].present && start <= ranges[i].last && last >= ranges[i].start)
            return true;
    return false;
}

/* The average distance of entries from their home positions. */
static double mean_distance(const struct handle_map *map)
{
    size_t sum = 0, n = 0;

    for (size_t i = 0; i <= map->mask; i++) {
        if (map->entries[i].key == 0)
            continue;
        sum += (i - handle_map_home(map, map->entries[i].key)) & map->mask;
        n++;
    }
    return (double)sum / (double)n;
}

/* Keys that differ in their upper half, as pairs of a block and a line do, must spread over many home positions. */
static void test_handle_map_of_pairs(void **unused)
{
    struct handle_map map;

    (void)unused;
    assert_true(handle_map_init(&map));
    for (uint64_t slot = 0; slot < 10000; slot++)
        for (uint64_t line = 0; line < 20; line++)
            assert_int_not_equal(handle_map_add(&map, slot << 32 | line), HANDLE_MAP_NONE);
    assert_true(mean_distance(&map) < 16);
    handle_map_free(&map);
}

static void test_intervals(void **unused)
{
    static struct interval model[RANGES];
    struct intervals set;
    uint32_t random = 7;

    intervals_init(&set);
    for (int i = 0; i < 100000; i++) {
        uint32_t k = next_random(&random) % RANGES;
        uint64_t start = next_random(&random) % 20000, last = start + next_random(&random) % 60;
        bool overlap = any_overlap(model, start, last);

        assert_int_equal(intervals_overlap(&set, start, last) != INTERVALS_NONE, overlap);
        if (model[k].present) {
            intervals_remove(&set, k);
            model[k].present = false;
        } else if (!overlap) {
            assert_true(intervals_add(&set, k, start, last));
            model[k] = (struct interval){.start = start, .last = last, .present = true};
        }
    }
    intervals_free(&set);
}

static void test_numbers(void **unused)
{
    static struct textout out;
    uint64_t values[] = {0, 9, 10, 99, 100, 101, 999, 1000, 4294967295u, UINT64_MAX};
    char expected[400] = "", found[400] = {0};
    FILE *file = tmpfile();

    textout_init(&out, fileno(file));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        textout_put_number(&out, values[i]);
        textout_put_char(&out, '\n');
        sprintf(expected + strlen(expected), "%" PRIu64 "\n", values[i]);
    }
    assert_int_equal(textout_finish(&out), 0);
    assert_true(pread(fileno(file), found, sizeof found - 1, 0) > 0);
    assert_string_equal(found, expected);
    fclose(file);
}

static void test_write_error_is_kept(void **unused)
{
    static struct textout out;

    textout_init(&out, -1);
    textout_bytes(&out, "x", 1);
    assert_int_not_equal(textout_finish(&out), 0);
}

static void test_grow_refuses_the_impossible(void **unused)
{
    uint64_t *array = NULL;
    size_t room = 0;

    assert_false(array_grow(&array, &room, SIZE_MAX / 4, sizeof *array));
    assert_int_equal(room, 0);
    assert_true(array_grow(&array, &room, 3, sizeof *array));
    assert_true(room >= 3 && array[2] == 0);
    free(array);
}

/* A valid start of a trace: two blocks, [0x1000, 0x1040) and [0x2000, 0x2010). */
#define TWO_BLOCKS                                                                                           \
    {.kind = MT_NEW, .addr = 0x1000, .size = 64, .handle = 0, .slot = 0},                                    \
    {                                                                                                        \
        .kind = MT_NEW, .addr = 0x2000, .size = 16, .handle = 1, .slot = 1                                   \
    }

static void expect_broken(enum check_rule rule, struct mt_event last)
{
    struct mt_event events[] = {TWO_BLOCKS, {.kind = MT_LOAD, .addr = 0x1008, .size = 8, .offset = 8}, last};
    struct check_ids ids = {.stacks = 1, .sites = 1, .heaps = 1};
    struct check c;

    check_init(&c);
    assert_true(check_feed(&c, ids, events, events, 4));
    for (int i = 0; i < CHECK_RULES; i++)
        assert_int_equal(c.findings[i].count, i == (int)rule);
    if (rule < CHECK_RULES)
        assert_int_equal(c.findings[rule].event, 3);
    check_free(&c);
}

#define BROKEN(rule, ...) expect_broken(rule, (struct mt_event){__VA_ARGS__})

static void test_each_rule(void **unused)
{
    BROKEN(CHECK_RULES, .kind = MT_STORE, .addr = 0x103f, .size = 1, .offset = 63);
    BROKEN(CHECK_OVERLAP, .kind = MT_NEW, .addr = 0x103f, .size = 4, .handle = 2, .slot = 2);
    BROKEN(CHECK_OVERLAP, .kind = MT_NEW, .addr = 0x1020, .size = 0, .handle = 2, .slot = 2);
    BROKEN(CHECK_OVERLAP, .kind = MT_NEW, .addr = 0xff0, .size = 0x2000, .handle = 2, .slot = 2);
    BROKEN(CHECK_OVERLAP, .kind = MT_RESIZE, .old_addr = 0x1000, .old_size = 64, .addr = 0x200f, .size = 9);
    BROKEN(CHECK_HANDLE, .kind = MT_NEW, .addr = 0x3000, .size = 4, .handle = 3, .slot = 2);
    BROKEN(CHECK_SLOT, .kind = MT_NEW, .addr = 0x3000, .size = 4, .handle = 2, .slot = 1);
    BROKEN(CHECK_BLOCK, .kind = MT_LOAD, .addr = 0x1000, .size = 4, .handle = 1, .slot = 0);
    BROKEN(CHECK_BLOCK, .kind = MT_FREE, .addr = 0x3000, .size = 4, .handle = 2, .slot = 2);
    BROKEN(CHECK_BLOCK, .kind = MT_FREE, .addr = 0x3000, .size = 4, .handle = 2, .slot = 4000000000u);
    BROKEN(CHECK_PLACE, .kind = MT_FREE, .addr = 0x1000, .size = 63);
    BROKEN(CHECK_PLACE, .kind = MT_RESIZE, .old_addr = 0x1001, .old_size = 64, .addr = 0x5000, .size = 9);
    BROKEN(CHECK_INSIDE, .kind = MT_LOAD, .addr = 0x1040, .size = 4, .offset = 64);
    BROKEN(CHECK_INSIDE, .kind = MT_LOAD, .addr = 0x1008, .size = 4, .offset = 4);
    BROKEN(CHECK_ID, .kind = MT_LOAD, .addr = 0x1000, .size = 4, .ref = 1);
    BROKEN(CHECK_ID, .kind = MT_FREE, .addr = 0x1000, .size = 64, .ref = 1);
    BROKEN(CHECK_ID, .kind = MT_FREE, .addr = 0x1000, .size = 64, .heap = 1);
    BROKEN(CHECK_KIND, .kind = MT_KINDS);
}

static void test_time(void **unused)
{
    struct mt_event events[] = {{.kind = MT_MARK, .time = 5}, {.kind = MT_MARK, .time = 4}};
    struct check_ids ids = {1, 1, 1};
    struct check c;

    check_init(&c);
    assert_true(check_feed(&c, ids, events, events, 2));
    assert_int_equal(c.findings[CHECK_TIME].count, 1);
    assert_int_equal(c.findings[CHECK_TIME].event, 1);
    check_free(&c);
}

static void test_crossing_is_no_breach(void **unused)
{
    struct mt_event events[] = {TWO_BLOCKS, {.kind = MT_LOAD, .addr = 0x103c, .size = 8, .offset = 0x3c}};
    struct check_ids ids = {1, 1, 1};
    struct check c;

    check_init(&c);
    assert_true(check_feed(&c, ids, events, events, 3));
    assert_int_equal(c.crossing.count, 1);
    for (int i = 0; i < CHECK_RULES; i++)
        assert_int_equal(c.findings[i].count, 0);
    check_free(&c);
}

/* Hidden events update the checker's model, too: a hidden live block overlaps with one that is shown. */
static void test_only_what_is_shown_is_reported(void **unused)
{
    struct mt_event events[] = {TWO_BLOCKS,
                                {.kind = MT_LOAD, .addr = 0x1000, .size = 4, .handle = 7},
                                {.kind = MT_NEW, .addr = 0x2008, .size = 4, .handle = 2, .slot = 2},
                                {.kind = MT_LOAD, .addr = 0x2008, .size = 8, .handle = 2, .slot = 2},
                                {.kind = MT_FREE, .addr = 0x1000, .size = 64}};
    struct mt_event shown[] = {events[3], events[4], events[5]};
    struct check_ids ids = {1, 1, 1};
    struct check c;

    shown[2].kind = WALK_OTHER;
    check_init(&c);
    assert_true(check_feed(&c, ids, events, NULL, 3));
    assert_int_equal(c.findings[CHECK_BLOCK].count + c.n_events + c.live, 0);
    assert_true(check_feed(&c, ids, events + 3, shown, 3));
    assert_int_equal(c.findings[CHECK_OVERLAP].count, 1);
    assert_int_equal(c.findings[CHECK_OVERLAP].event, 0);
    assert_int_equal(c.crossing.event, 1);
    assert_int_equal(c.n_events, 3);
    assert_int_equal(c.n_shown, 2);
    assert_int_equal(c.events[MT_FREE], 0);
    assert_int_equal(c.live, 1);
    check_free(&c);
}

/* A block that ends at the highest address. */
static void test_top_of_memory(void **unused)
{
    struct mt_event events[] = {{.kind = MT_NEW, .addr = UINT64_MAX - 15, .size = 16},
                                {.kind = MT_NEW, .addr = UINT64_MAX, .size = 100, .handle = 1, .slot = 1}};
    struct check_ids ids = {1, 1, 1};
    struct check c;

    check_init(&c);
    assert_true(check_feed(&c, ids, events, events, 2));
    assert_int_equal(c.findings[CHECK_OVERLAP].count, 1);
    check_free(&c);
}

/* What was allocated and what a garbage collector freed stays counted, at its place, when the parts become wider. */
static void test_parts_that_become_wider(void **unused)
{
    enum { WIDTH = 4, LIVES = WIDTH * SITE_RULES_PARTS };
    const struct site_rules_limits limits = {0};
    struct life lives[LIVES] = {0};
    struct site_rules sums;

    for (unsigned i = 0; i < LIVES; i++)
        lives[i] =
            (struct life){.freed = true, .born = i, .died = i, .type = i % 2 ? MT_TYPE_TAB : MT_TYPE_UNKNOWN};
    site_rules_init(&sums, &limits, GROUPS_BY_STACK);
    assert_true(site_rules_add(&sums, lives, NULL, LIVES));
    assert_int_equal(sums.width, WIDTH);
    for (unsigned i = 0; i < SITE_RULES_PARTS; i++) {
        assert_int_equal(sums.parts[i].collected, WIDTH / 2);
        assert_int_equal(sums.parts[i].news, WIDTH);
    }
    site_rules_widen(&sums, 2 * WIDTH);
    for (unsigned i = 0; i < SITE_RULES_PARTS; i++) {
        assert_int_equal(sums.parts[i].collected, i < SITE_RULES_PARTS / 2 ? WIDTH : 0);
        assert_int_equal(sums.parts[i].news, i < SITE_RULES_PARTS / 2 ? 2 * WIDTH : 0);
    }
    site_rules_free(&sums);
}

static struct mt_event event_at(uint64_t time, uint16_t thread, uint8_t kind)
{
    return (struct mt_event){
        .time = time, .thread = thread, .kind = kind, .how = kind == MT_STATE ? MT_VM_GC : 0};
}

static void feed(struct gc_time *g, const struct mt_event *events, uint32_t n)
{
    const struct mt_step step = {.segment = MT_STEP_EVENTS, .count = n};
    const struct mt_batch batch = {.steps = &step, .n_steps = 1, .events = events, .n_events = n};

    assert_true(gc_time_feed(g, &batch));
}

/* In a shard, the times of a thread before its first state are added up for each bin. */
static void test_time_before_the_first_state(void **unused)
{
    enum { WIDTH = 2 };
    const struct mt_event events[] = {
        event_at(100, 1, MT_LOAD), event_at(110, 1, MT_LOAD), event_at(130, 1, MT_LOAD),
        event_at(200, 2, MT_LOAD), event_at(205, 1, MT_LOAD), event_at(300, 1, MT_STATE),
        event_at(301, 1, MT_LOAD),
    };
    struct gc_time g;

    assert_true(gc_time_init(&g));
    gc_time_begin_shard(&g, 0, WIDTH * GC_TIME_BINS - 1);
    feed(&g, events, sizeof events / sizeof *events);
    assert_int_equal(g.width, WIDTH);
    assert_int_equal(g.n, 4);
    const struct gc_time_row expected[] = {{1, 0, 10}, {1, 1, 20 + 70}, {2, 2, 5}, {1, 2, 95}};
    assert_memory_equal(g.before, expected, sizeof expected);
    assert_int_equal(g.bins[2], 1);
    gc_time_free(&g);
}

/* A random size of any magnitude, sometimes next to a power of two. */
static uint64_t some_size(uint32_t *state)
{
    uint64_t size =
        (uint64_t)next_random(state) << 40 ^ (uint64_t)next_random(state) << 20 ^ next_random(state);
    unsigned shift = next_random(state) % 64;

    switch (next_random(state) % 8) {
    case 0:
        return (uint64_t)1 << shift;
    case 1:
        return UINT64_MAX >> shift;
    case 2:
        return next_random(state) % 3;
    default:
        return size >> shift;
    }
}

/* Applying the composition of several Resizes gives the same result as applying each of them. */
static void test_used_parts_mapped(void **unused)
{
    uint32_t random = 3;

    for (int i = 0; i < 100000; i++) {
        struct usedparts_map map = {0};
        uint64_t size = some_size(&random);
        uint64_t parts = (uint64_t)next_random(&random) << 48 ^ (uint64_t)next_random(&random) << 24 ^
                         next_random(&random);
        uint64_t first = parts;

        for (unsigned n = next_random(&random) % 6; n > 0; n--) {
            uint64_t to = some_size(&random);

            parts = usedparts_resized(parts, size, to);
            usedparts_map_add(&map, size, to);
            size = to;
        }
        assert_true(usedparts_mapped(&map, first, size) == parts);
    }
}

/* The shard of a damaged trace has more bins than the timeline, and ends after them. */
static void test_timeline_of_shards_that_do_not_fit(void **unused)
{
    const struct timeline_now end = {.operations = 1000};
    struct timeline t;

    assert_true(timeline_init(&t, 4));
    for (uint64_t i = 1; i <= 6; i++)
        timeline_append(&t, &(struct timeline_bin){.operations_end = i});
    timeline_finish(&t, &end);
    assert_int_equal(t.used, 4);
    assert_int_equal(t.bins[3].operations_end, 4);
    timeline_destroy(&t);
}

/* A merged profile whose last bin is not at the end of the last shard. */
static void test_profile_of_shards_that_do_not_fit(void **unused)
{
    static const uint64_t map[PROFILE_SIZES * PROFILE_LIFETIMES];
    const struct timeline_bin bins[] = {{.operations_end = 1}, {.operations_end = 2}};
    struct profile_shard shard = {.totals.operations = 2, .width = 1};
    struct profile_partial part = {.shard = &shard, .bins = bins, .n_bins = 2, .map_blocks = map, .map_bytes = map};

    for (uint64_t operations = 2; operations <= 3; operations++) {
        struct profile *p = profile_new(8);

        assert_non_null(p);
        shard.totals.operations = operations;
        assert_true(profile_merge(p, &part));
        assert_int_equal(profile_fits(p), operations == 2);
        profile_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_used_parts_mapped),
        cmocka_unit_test(test_handle_map),
        cmocka_unit_test(test_handle_map_of_pairs),
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_write_error_is_kept),
        cmocka_unit_test(test_grow_refuses_the_impossible),
        cmocka_unit_test(test_each_rule),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_crossing_is_no_breach),
        cmocka_unit_test(test_only_what_is_shown_is_reported),
        cmocka_unit_test(test_top_of_memory),
        cmocka_unit_test(test_parts_that_become_wider),
        cmocka_unit_test(test_timeline_of_shards_that_do_not_fit),
        cmocka_unit_test(test_profile_of_shards_that_do_not_fit),
        cmocka_unit_test(test_time_before_the_first_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
