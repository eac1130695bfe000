/* absent.c - what the code shared with the tool calls, and what does not exist without Valgrind.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * No accesses are recorded, so there are none to take back; no code is translated; and no snapshots are made.
 */
#include "ljtrace/tool/luajit/snapshot/snapshot.h"
#include "ljtrace/tool/ring/rollback.h"
#include "pub_tool_transtab.h"

UInt lt_snapshot_waiting;

void lt_snapshot_try_due(struct lt_vm *vm)
{
    (void)vm;
}

void lt_rollback_enter(struct lt_ring_place *place)
{
    (void)place;
}

void lt_rollback_return(const struct lt_ring_place *place)
{
    (void)place;
}

void lt_rollback_drop(const struct lt_ring_place *place)
{
    (void)place;
}

void VG_(discard_translations_safely)(Addr start, SizeT len, const HChar *who)
{
    (void)start, (void)len, (void)who;
}
