/* faults.h - the events that are errors of the program, summed up by what they are and where.
 *
 * Bad frees, accesses to freed memory, and accesses that begin in a block and end behind it; of the last,
 * aligned loads are excused (steve/analysis/program_errors.py says why). Segments of a batch lie whole in their blocks,
 * so only its events need to be looked at. Those of one kind, manner (all that shares a byte with `how`) and
 * place (`ref`) are one case: the first of them is kept, and how many there are. Memory: O(cases).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LIVES_FAULTS_H
#define STEVE_KERNELS_LIVES_FAULTS_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/handle_map.h"

struct faults {
    struct livemap known;   /* ref << 16 | kind << 8 | manner: index of its case */
    struct mt_event *first; /* by index, which is the order of first events */
    uint64_t *counts;
    size_t n, first_room, counts_room;
};

bool faults_init(struct faults *f); /* false: out of memory; free it then, too */
void faults_free(struct faults *f);
/* Sum up the errors among n events. False: out of memory. */
bool faults_add(struct faults *f, const struct mt_event *events, size_t n);

#endif
