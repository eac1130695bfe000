/* caller.c - find which of several Lua states with one heap calls the allocator.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Many programs pass the same allocator function and pointer, often NULL, to all their states, so the
 * arguments do not show which state calls. But LuaJIT counts its bytes in the global state, before or after
 * the call. So the caller has the address of the global state in a register or has just saved it on the
 * stack. The nearest one is the caller's: the registers come first, then the stack from the stack pointer
 * upwards. If the registers contain several, it is the one whose VM was entered last on this thread's stack.
 * If none is found anywhere, it is the state whose VM was entered last.
 */
#include "ljtrace/luajit/core/caller.h"
#include "ljtrace/luajit/core/objects.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/stack/stack.h"

enum { REGISTERS = HOST_REGISTERS - HOST_RBX, STACK_WORDS = 64 };

static struct lt_vm *with_global(uint64_t ud, uint64_t g)
{
    struct lt_vm *vm = lt_vm_first();
    while (vm && (vm->g != g || vm->ud != ud))
        vm = vm->next;
    return vm;
}

/* May the thread read the state's memory? */
static bool is_readable_by(const struct lt_vm *vm, uint32_t tid)
{
    return !vm->closed_by || vm->closed_by == tid;
}

/* Where the state's VM was entered last on the thread's stack, at sp or above; ~0 = it was not. */
static uint64_t entered_at(const struct lt_vm *vm, uint32_t tid, uint64_t sp)
{
    uint64_t cframe = is_readable_by(vm, tid) ? lt_vm_cframe(vm) : 0;
    return cframe >= sp && cframe < host_stack_range(tid).end ? cframe : ~(uint64_t)0;
}

static struct lt_vm *later(struct lt_vm *a, struct lt_vm *b, uint32_t tid, uint64_t sp)
{
    return !a || (b && entered_at(b, tid, sp) < entered_at(a, tid, sp)) ? b : a;
}

static struct lt_vm *in_registers(uint32_t tid, uint64_t ud, uint64_t sp)
{
    uint64_t reg[REGISTERS];
    struct lt_vm *found = NULL;
    host_registers(tid, HOST_RBX, REGISTERS, reg);
    for (uint32_t i = 0; i < REGISTERS; i++)
        found = later(found, with_global(ud, reg[i]), tid, sp);
    return found;
}

static struct lt_vm *on_stack(uint32_t tid, uint64_t ud, uint64_t sp)
{
    struct lt_vm *found = NULL;
    uint64_t top = host_stack_range(tid).end;
    for (uint64_t at = sp; !found && at < sp + STACK_WORDS * sizeof(uint64_t) && at + sizeof(uint64_t) <= top;
         at += sizeof(uint64_t))
        found = with_global(ud, program_number(at, sizeof(uint64_t)));
    return found;
}

static struct lt_vm *running(uint32_t tid, uint64_t ud, uint64_t sp)
{
    struct lt_vm *found = NULL;
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (vm->ud == ud && entered_at(vm, tid, sp) != ~(uint64_t)0)
            found = later(found, vm, tid, sp);
    return found;
}

struct lt_vm *lt_vm_caller_in_registers(uint32_t tid, uint64_t ud, uint64_t sp)
{
    return in_registers(tid, ud, sp);
}

struct lt_vm *lt_vm_caller(uint32_t tid, uint64_t ud, uint64_t sp)
{
    struct lt_vm *vm = lt_vm_of(ud);
    if (vm || lt_vm_count(ud) == 0)
        return vm;
    vm = in_registers(tid, ud, sp);
    if (!vm)
        vm = on_stack(tid, ud, sp);
    return vm ? vm : running(tid, ud, sp);
}

struct lt_vm *lt_vm_running(uint32_t tid)
{
    uint64_t sp = host_register(tid, HOST_RSP), innermost = host_stack_range(tid).end;
    struct lt_vm *found = NULL;
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next) {
        uint64_t cframe = is_readable_by(vm, tid) ? lt_vm_cframe(vm) : 0;
        if (cframe >= sp && cframe < innermost) {
            innermost = cframe;
            found = vm;
        }
    }
    return found;
}
