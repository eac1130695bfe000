/* test_sample.c - weights of blocks of a sample: compared with the C library's functions, and numbers without bias.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/test/support.h"

#include "memtrace/sample.h"

#include <math.h>

static void test_weight(void **state)
{
    (void)state;
    for (double mean = 1; mean < 1e12; mean *= 7)
        for (double size = 1; size < 1e12; size *= 3) {
            const struct mt_sample sample = {.mean = (uint64_t)mean, .seed = (uint64_t)(mean * size)};
            const double wanted = -1 / expm1(-floor(size) / floor(mean));
            const double found = mt_sample_weight(&sample, 5, (uint64_t)size);
            assert_true(fabs(found - wanted) <= 1e-9 * wanted);
        }
}

/* Over many handles, and for one handle over many seeds, the mean of the rounded numbers is the product, and that of the
 * variances the variance. */
static void check_rounding(uint64_t size, bool seeds)
{
    enum { DRAWS = 200000 };
    const double weight = -1 / expm1(-(double)size / 1000), fraction = weight - floor(weight);
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const struct mt_sample sample = {1000, seeds ? i : 77};
        const uint64_t n = mt_scaled(mt_sample_weight(&sample, seeds ? 3 : i, size), 1);
        assert_true(n == (uint64_t)weight || n == (uint64_t)weight + 1);
        sum += (double)n;
        squares += mt_scaled_variance(n, 1);
    }
    assert_true(fabs(sum / DRAWS - weight) < 0.005);
    assert_true(fabs(squares / DRAWS - (weight * weight + fraction * (1 - fraction) - weight)) < 0.02 * weight);
}

static void test_scaled(void **state)
{
    (void)state;
    for (uint64_t size = 20; size < 3000; size += size / 2) {
        check_rounding(size, false);
        check_rounding(size, true);
    }
    assert_int_equal(mt_scaled(0, 12345), 12345);
    assert_int_equal(mt_scaled(2, 12345), 24690);
    assert_int_equal(mt_scaled(1e10, UINT64_MAX), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weight),
        cmocka_unit_test(test_scaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
