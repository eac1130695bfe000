/* lua_stack.c - joins the stack of an allocation by C code with the Lua stack that has called it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/lua_stack.h"
#include "ljtrace/native/host/records.h"
#include "ljtrace/native/host/registers.h"
#include "ljtrace/tool/luajit/core/caller.h"
#include "ljtrace/tool/luajit/stack/stack.h"
#include "ljtrace/tool/stacks/unwind.h"
#include "pub_tool_threadstate.h"

bool lua_stack_take(const struct native_registers *from, struct raw_stack *stack)
{
    static struct lt_stack taken;
    if (!lt_vm_first())
        return false;
    host_at_entry = False;
    host_registers.guest_RIP = from->ip;
    host_registers.guest_RSP = from->sp;
    host_registers.guest_RBP = from->bp;
    struct lt_vm *vm = lt_vm_running(VG_(get_running_tid)());
    if (!vm)
        return false;
    lt_take_lua_stack(VG_(get_running_tid)(), vm, 0, &taken);
    *stack = host_stack(&taken);
    return true;
}

void lua_stack_forget(void)
{
    lt_forget_frames();
}
