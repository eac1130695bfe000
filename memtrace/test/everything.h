/* everything.h - small traces with every kind of chunk, definition and event.
 *
 * Tests that damage traces use these. A new record must be added here: test_damage_all.c counts the records.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_TEST_EVERYTHING_H
#define MEMTRACE_TEST_EVERYTHING_H

#include "memtrace/test/support.h"

/* A program's trace, of some 15 KB, and that of the child that it forks at its end. Free .data with free().
 */
struct bytes trace_of_everything(void);
struct bytes trace_of_a_fork(void);

#endif
