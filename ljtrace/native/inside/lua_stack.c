/* lua_stack.c - joins the stack of an allocation by C code with the Lua stack that has called it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/inside/lua_stack.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/core/caller.h"
#include "ljtrace/luajit/core/objects.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/native/inside/host/host.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

void lua_stack_begin(const struct native_registers *from, uint64_t function)
{
    event_at_entry = function != 0;
    event_ip = function ? function : from->ip;
    event_registers[HOST_RSP] = function ? from->sp - sizeof(uint64_t) : from->sp;
    event_registers[HOST_RBP] = from->bp;
}

bool lua_stack_take(const struct native_registers *from, uint64_t function, struct raw_stack *stack)
{
    TABLE(struct lt_stack, taken, 1);
    if (!lt_vm_first())
        return false;
    lua_stack_begin(from, function);
    struct lt_vm *vm = lt_vm_running(host_thread());
    if (!vm)
        return false;
    lt_take_lua_stack(host_thread(), vm, 0, taken);
    *stack = host_stack(taken);
    return true;
}

/* All registers that a walk at any instruction needs. */
static void set_registers(const ucontext_t *at)
{
    const greg_t *from = at->uc_mcontext.gregs;
    event_at_entry = false;
    event_ip = (uint64_t)from[REG_RIP];
    event_registers[HOST_RSP] = (uint64_t)from[REG_RSP];
    event_registers[HOST_RBP] = (uint64_t)from[REG_RBP];
    event_registers[HOST_RBX] = (uint64_t)from[REG_RBX];
    event_registers[HOST_RDX] = (uint64_t)from[REG_RDX];
}

void lua_stack_sample(const ucontext_t *at, struct lua_sample *sample)
{
    TABLE(struct lt_stack, taken, 1);
    const uint32_t tid = host_thread();
    program_forget();
    if (at)
        set_registers(at);
    struct lt_vm *vm = lt_vm_first() ? lt_vm_running(tid) : NULL;
    if (vm)
        lt_take_sampled_stack(tid, vm, taken);
    else
        c_stack_take(tid, taken);
    *sample = (struct lua_sample){vm ? lt_machine_state(vm) : MT_VM_C, vm ? lt_vm_heap(vm) : 0,
                                  (const uint64_t *)taken->ips, taken->depth};
}

void lua_stack_forget(void)
{
    host_forget_frames();
}
