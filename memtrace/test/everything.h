/* everything.h - small traces that hold every kind of chunk, of definition and of event there is.
 *
 * What is done to all that a reader can meet (damage) is done to these. Whoever adds a record adds it here:
 * test_damage_all.c counts what is in them.
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
