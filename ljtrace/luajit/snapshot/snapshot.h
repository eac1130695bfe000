/* snapshot.h - snapshots of all objects of a Lua state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The state does not change while a snapshot is taken: the program is stopped or, natively, a copy of the process is read
 * (host_copy_begin). There are three walks: one for the sums; one in which every object in the collector's lists and in the
 * string table is written into the ring (RAW_OBJECT); one for the references of each object (RAW_LINKS). Nothing is
 * stored here for each object; the collector process gives them numbers. The program's memory is not changed. Whatever
 * it contains, each walk ends: a list may have no more objects than the bytes of the heap allow.
 */
#ifndef LJTRACE_LUAJIT_SNAPSHOT_SNAPSHOT_H
#define LJTRACE_LUAJIT_SNAPSHOT_SNAPSHOT_H

#include "ljtrace/luajit/core/states.h"
#include <stdbool.h>
#include <stdint.h>

/* Take a snapshot of each known state. name: for the readers of the trace. Returns the number of
 * snapshots. */
uint32_t lt_snapshot_take(const char *name);
/* Take one of this state, which the calling thread executes. Returns false if that is not possible. */
bool lt_snapshot_of(struct lt_vm *vm, const char *name);
/* As lt_snapshot_take, at a moment that the program did not choose. A state may just be creating or freeing an object;
 * then its lists and sums are not consistent. The snapshot of such a state is postponed until the state
 * allocates, which it does only when everything is in its place; if the sums are still wrong, until the next
 * time. Returns the number of postponed snapshots. */
uint32_t lt_snapshot_request(const char *name);
/* The number of states whose snapshot is postponed. */
extern uint32_t lt_snapshot_waiting;
/* The state allocates: take its snapshot if it was postponed or, with --universe=growing, if the heap has grown enough
 * since the last one. */
void lt_snapshot_try(struct lt_vm *vm);
/* Postpone a snapshot of each state. */
void lt_snapshot_postpone(const char *name);
/* With --universe=growing, and if none is postponed: postpone one of each state that had grown before and has another size now, or
 * else is larger than at the last one by 64 KiB. Returns whether there is any. */
bool lt_snapshot_postpone_grown(const char *name);
/* Take none of those that were postponed. */
void lt_snapshot_forget_due(void);
/* Take the snapshot of this state if it was postponed: no thread executes the state. */
void lt_snapshot_try_due(struct lt_vm *vm);
/* The program or the recording ends: take all postponed snapshots, consistent or not. */
void lt_snapshot_take_due(void);
/* The program ends: with --universe=at-exit, take the last snapshot of each state that was not closed, each followed by
 * a mark. */
void lt_snapshot_at_exit(void);
/* The state with this global state is about to be closed: with --universe=at-exit, take its last snapshot, followed by
 * a mark. */
void lt_snapshot_state_ends(uint64_t g);

#endif
