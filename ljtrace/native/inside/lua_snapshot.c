/* lua_snapshot.c - takes a snapshot of all objects of a Lua state, by the reader of LuaJIT.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Other threads may execute other states at the same time, and change their objects. So only the state on whose behalf the
 * calling thread is in C is walked. It waits here meanwhile, and everything of it is in its place.
 */
#include "ljtrace/native/inside/lua_snapshot.h"
#include "ljtrace/luajit/core/caller.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/snapshot/snapshot.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/host/host.h"
#include "ljtrace/native/inside/lua_stack.h"
#include "ljtrace/native/inside/block_sample.h"

const char *lua_snapshot(const char *name)
{
    const struct native_registers here = NATIVE_HERE;
    if (block_sample_mean)
        return "no snapshots are taken in a sample of the blocks";
    host_set_time();
    lua_stack_begin(&here, 0);
    struct lt_vm *vm = lt_vm_first() ? lt_vm_running(host_thread()) : NULL;
    return vm && lt_snapshot_of(vm, name)
               ? NULL
               : "a snapshot was not taken: only the Lua state that calls for it is read, and there is none";
}
