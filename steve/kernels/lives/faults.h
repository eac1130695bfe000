/* faults.h - events that are errors of the program, counted by kind and place.
 *
 * These are bad frees, accesses to freed memory, and accesses that begin in a block and end after it, except aligned
 * loads (see steve/analysis/program_errors.py). Segments of a batch lie whole in their blocks, so only single events
 * can be errors. Events of the same kind, manner (the byte with `how`) and place (`ref`) form one case, of which the
 * first event and the number of events are kept. Memory: O(cases).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_FAULTS_H
#define STEVE_KERNELS_LIVES_FAULTS_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/handle_map.h"

struct faults {
    struct handle_map known; /* ref << 16 | kind << 8 | manner: index of its case */
    struct mt_event *first; /* by index, which is the order of first events */
    uint64_t *counts;
    size_t n, first_room, counts_room;
};

bool faults_init(struct faults *f); /* false: out of memory; faults_free is still needed */
void faults_free(struct faults *f);
/* Count the errors among n events. False: out of memory. */
bool faults_add(struct faults *f, const struct mt_event *events, size_t n);

#endif
