/* faults.h - the events that are errors of the program, out of all.
 *
 * Bad frees, accesses to freed memory, and accesses that begin in a block and end behind it; of the last,
 * aligned loads are excused (steve/faults.py says why). Patterns of a packed trace lie whole in their blocks,
 * so only its events need to be looked at.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_FAULTS_H
#define STEVE_FAULTS_H

#include "memtrace/memtrace.h"

/* Copy the errors among n events to out, which has room for n: how many. */
size_t faults_pick(const struct mt_event *events, size_t n, struct mt_event *out);

#endif
