/* states.h - what happens while Lua's virtual machines are in each of their states.
 *
 * The state of a thread, and its Lua heap, are those of its last MT_STATE; before the first one it has none.
 * Instructions between two events belong to the state of the thread of the first event, because the traced threads run
 * one at a time, and each turn ends with an event or soon after one. So the instructions of all rows add up to those of
 * the trace. Heap events and accesses belong to the state of their own thread. Memory: O(states + traces + threads).
 *
 * At the beginning of a shard, the state of a thread is not known until its first MT_STATE. The row for it has vm
 * STATES_BEFORE, and the thread in the place of the heap. Time counts from the first event of the shard.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_ACCESSES_STATES_H
#define STEVE_KERNELS_ACCESSES_STATES_H

#include "memtrace/memtrace.h"
#include "steve/kernels/base/handle_map.h"
#include "steve/kernels/base/sums.h"

#define STATES_BEFORE (MT_VMS + 1)

struct states {
    struct states_row *rows;
    size_t n, room;
    struct handle_map known; /* from heap, vm and trace to the row */
    uint32_t *now;        /* row by thread; 0: in none */
    uint64_t time;
    uint16_t thread; /* that ran last */
    bool began;
    bool part;           /* set by the caller before anything is fed: see above */
    uint64_t first_time; /* of the first event, in a part */
};

/* All return false when out of memory. */
bool states_init(struct states *s);
bool states_feed(struct states *s, const struct mt_event *events, size_t n);
void states_finish(struct states *s, uint64_t time); /* instructions when the trace ended */
void states_free(struct states *s);

#endif
