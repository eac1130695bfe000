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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps_keep_what_they_are_given)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
