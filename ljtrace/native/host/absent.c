/* absent.c - what the code shared with the tool calls, and what does not exist without Valgrind.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * No accesses are recorded, so there are none to take back; no code is translated; and the names of C functions are not
 * known here, because the collector finds them.
 */
#include "ljtrace/native/inside/native.h"
#include "ljtrace/tool/ring/ring.h"
#include "ljtrace/tool/ring/rollback.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_transtab.h"

Bool lt_ring_alive(void)
{
    return native_is_on();
}

DiEpoch VG_(current_DiEpoch)(void)
{
    return (DiEpoch){0};
}

Bool VG_(get_fnname)(DiEpoch epoch, Addr a, const HChar **name)
{
    (void)epoch, (void)a, (void)name;
    return False;
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
