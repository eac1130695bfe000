/* snapshot.h - snapshots of all objects of a Lua state. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A snapshot is taken while the program stands still: every object in the collector's lists and the string
 * table is told (RAW_OBJECT), then, in a second walk, what it refers to (RAW_LINKS). Nothing is kept for each
 * object here; the collector gives them numbers. Nothing of the program is changed, and whatever its memory
 * holds, the walk ends: lists are at most as long as the heap's bytes allow.
 */
#ifndef LJTRACE_TOOL_LUAJIT_SNAPSHOT_SNAPSHOT_H
#define LJTRACE_TOOL_LUAJIT_SNAPSHOT_SNAPSHOT_H

#include "ljtrace/tool/luajit/core/states.h"

/* Take a snapshot of every known state; returns how many. `name`: what readers call it. */
UInt lt_universe_take(const HChar *name);
/* The same at a moment that the program did not choose: it may be in the midst of making or freeing an
 * object, and then lists and sums are not whole. Such a state's snapshot waits until it asks for memory,
 * which it does only when everything is in its place (it may be refused). Returns how many wait. */
UInt lt_universe_order(const HChar *name);
/* How many states wait. */
extern UInt lt_universe_waiting;
/* The state asks for memory. */
void lt_universe_try_due(struct lt_vm *vm);
/* Whatever waits is taken as things are: the program ends. */
void lt_universe_take_due(void);
/* The state with that global state is about to be closed: with --universe=at-exit its last snapshot is taken.
 */
void lt_universe_state_ends(Addr g);

#endif
