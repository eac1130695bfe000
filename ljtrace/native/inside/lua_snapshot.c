/* lua_snapshot.c - takes a snapshot of all objects of a Lua state, by the reader of LuaJIT.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Other threads may execute other states at the same time, and change their objects. So only the state on whose behalf the
 * calling thread is in C is read. It waits here meanwhile, and everything of it is in its place.
 *
 * After an attach each state is read, if it is certain that its lists of objects are consistent: no thread executes it, or
 * this one does and was interrupted outside of LuaJIT. The snapshot of another state waits until the state allocates next,
 * which it does only when all is in its place. In machine code of a trace, values that are only in registers are not seen,
 * as roots.
 */
#include "ljtrace/native/inside/lua_snapshot.h"
#include "ljtrace/luajit/core/caller.h"
#include "ljtrace/luajit/core/objects.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/snapshot/snapshot.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/host/host.h"
#include "ljtrace/native/inside/lua_stack.h"
#include "ljtrace/native/inside/block_sample.h"
#include "ljtrace/native/inside/lua_event.h"

#include <dlfcn.h>
#include <sys/single_threaded.h>

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

/* -- of a program that runs already -- */

/* Does LuaJIT's own code run at this address, or code of one of its traces? */
static bool is_luajit(uint64_t ip)
{
    struct dl_find_object found;
    return host_is_lua_code(ip) || _dl_find_object((void *)ip, &found) != 0;
}

/* running: the state that this thread executes; NULL = none. */
static bool is_at_rest(const struct lt_vm *vm, const struct lt_vm *running, bool in_luajit)
{
    return lt_vm_cframe(vm) == 0 || (!in_luajit && (vm == running || __libc_single_threaded));
}

static void take_at_rest(bool in_luajit)
{
    const struct native_registers here = NATIVE_HERE;
    lua_stack_begin(&here, 0);
    struct lt_vm *running = lt_vm_running(host_thread());
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (!vm->ended && !vm->closed_by && is_at_rest(vm, running, in_luajit))
            lt_snapshot_try_due(vm);
}

void lua_snapshots_begin(uint64_t interrupted)
{
    if (!lua_event_begin())
        return;
    if (lt_vm_first()) {
        lt_snapshot_postpone("attached");
        take_at_rest(is_luajit(interrupted));
    } else
        native_problem("no snapshot was taken: the process has no Lua state that the recorder knows");
    lua_event_end();
}

void lua_snapshots_end(uint64_t interrupted)
{
    if (!native_is_on() || !lt_vm_first() || !lua_event_begin())
        return;
    const bool is_last = lt_snapshot_postpone_grown("at the end");
    if (lt_snapshot_waiting)
        take_at_rest(!interrupted || is_luajit(interrupted));
    if (lt_snapshot_waiting && !is_last)
        native_problem(
            "a snapshot was not taken: its Lua state was executed all the time, and did not allocate");
    lt_snapshot_forget_due();
    lua_event_end();
}
