/* test_map.c - tests of the collector's map from words to numbers.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ljtrace/collector/map.h"

static void maps_keep_what_they_are_given(void **state)
{
    struct map m = {0};
    uint32_t v = 0;
    (void)state;
    assert_false(map_get(&m, 0, &v));
    for (uint64_t k = 0; k < 10000; k++)
        map_set(&m, k * 0x9e3779b97f4a7c15ULL, (uint32_t)k);
    map_set(&m, 0, 77);
    for (uint64_t k = 1; k < 10000; k++) {
        assert_true(map_get(&m, k * 0x9e3779b97f4a7c15ULL, &v));
        assert_int_equal(v, k);
    }
    assert_true(map_get(&m, 0, &v) && v == 77);
    assert_false(map_get(&m, 12345, &v));
    map_clear(&m);
}

/* The table grows when it is half full, and only by new keys. */
static void maps_grow_with_their_keys(void **state)
{
    struct map m = {0};
    (void)state;
    for (uint64_t k = 0; k < 31; k++)
        map_set(&m, k, 1);
    const uint32_t capacity = m.capacity;
    for (uint32_t i = 0; i < 1000; i++)
        map_set(&m, i % 31, i);
    assert_int_equal(m.count, 31);
    for (uint64_t k = 31; m.capacity == capacity; k++)
        map_set(&m, k, 1);
    assert_int_equal(m.capacity, 2 * capacity);
    assert_int_equal(m.count, capacity / 2 + 1);
    map_clear(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps_keep_what_they_are_given),
                                       cmocka_unit_test(maps_grow_with_their_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
