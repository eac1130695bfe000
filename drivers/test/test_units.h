/* test_units.h - the unit tests of the replay's parts, one list for each file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DRIVERS_TEST_UNITS_H
#define DRIVERS_TEST_UNITS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int run_region_tests(void);
int run_table_tests(void);
int run_picture_tests(void);
int run_jeff_tests(void);
int run_clock_tests(void);

#endif
