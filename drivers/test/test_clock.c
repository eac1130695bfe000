/* test_clock.c - unit tests of the clock's step.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/test/test_units.h"

#include "drivers/base/clock.h"

#include <string.h>

/* The step if these values, up to a 0, were measured equally often. */
static uint64_t step(const unsigned *values)
{
    uint32_t counts[CLOCK_MOST] = {0};
    for (; *values; values++)
        counts[*values] = CLOCK_TRIALS / 20;
    counts[1000] = counts[1001] = 3; /* interruptions are rare */
    return clock_step_of(counts);
}

#define STEP(...) step((const unsigned[]){__VA_ARGS__, 0})

static void a_clock_of_every_tick(void **state)
{
    (void)state;
    assert_int_equal(STEP(70, 71, 72, 73, 90), 1);
    assert_int_equal(STEP(50, 70, 71, 72), 1);
}

static void steps_of_whole_ticks(void **state)
{
    (void)state;
    assert_int_equal(STEP(70, 72, 74, 80), 2);
    assert_int_equal(STEP(30, 60, 90), 30);
}

/* 24.5 ticks are 10 ns of a counter of 2.45 GHz. */
static void steps_of_a_part_of_a_tick(void **state)
{
    (void)state;
    assert_in_range(STEP(49, 73, 74, 98), 24, 25);
    assert_in_range(STEP(73, 74, 98), 24, 25);
    assert_in_range(STEP(48, 49, 73, 74, 97, 98), 24, 25);
}

static void one_multiple_of_the_step(void **state)
{
    (void)state;
    assert_int_equal(STEP(30), 30);
    assert_int_equal(STEP(73, 74), 74);
    assert_int_equal(clock_step_of((const uint32_t[CLOCK_MOST]){0}), 1);
}

int run_clock_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_of_every_tick), cmocka_unit_test(steps_of_whole_ticks),
        cmocka_unit_test(steps_of_a_part_of_a_tick), cmocka_unit_test(one_multiple_of_the_step)};
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
