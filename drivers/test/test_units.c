/* test_units.c - runs the unit tests of the replay's parts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "config.h"
#include "drivers/test/test_units.h"

int main(void)
{
    int failed = run_region_tests();
    failed += run_table_tests();
    failed += run_picture_tests();
    failed += run_jeff_tests();
    failed += run_clock_tests();
    return failed != 0;
}
