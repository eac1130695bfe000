/* caller.c - find which of several Lua states with one heap calls the allocator. (host side, no libc)
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
#include "ljtrace/luajit/stack/stack.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"

enum { REGISTERS = 13, STACK_WORDS = 64 }; /* registers from RBX to R15, contiguous in the guest state */

static struct lt_vm *with_global(Addr ud, Addr g)
{
    struct lt_vm *vm = lt_vm_first();
    while (vm && (vm->g != g || vm->ud != ud))
        vm = vm->next;
    return vm;
}

/* May the thread read the state's memory? */
static Bool is_readable_by(const struct lt_vm *vm, ThreadId tid)
{
    return !vm->closed_by || vm->closed_by == tid;
}

/* Where the state's VM was entered last on the thread's stack, at sp or above; ~0 = it was not. */
static Addr entered_at(const struct lt_vm *vm, ThreadId tid, Addr sp)
{
    Addr cframe = is_readable_by(vm, tid) ? lt_vm_cframe(vm) : 0;
    return cframe >= sp && cframe < VG_(thread_get_stack_max)(tid) ? cframe : ~(Addr)0;
}

static struct lt_vm *later(struct lt_vm *a, struct lt_vm *b, ThreadId tid, Addr sp)
{
    return !a || (b && entered_at(b, tid, sp) < entered_at(a, tid, sp)) ? b : a;
}

static struct lt_vm *in_registers(ThreadId tid, Addr ud, Addr sp)
{
    Addr reg[REGISTERS];
    struct lt_vm *found = NULL;
    VG_(get_shadow_regs_area)(tid, (UChar *)reg, 0, offsetof(VexGuestAMD64State, guest_RBX), sizeof reg);
    for (UInt i = 0; i < REGISTERS; i++)
        found = later(found, with_global(ud, reg[i]), tid, sp);
    return found;
}

static struct lt_vm *on_stack(ThreadId tid, Addr ud, Addr sp)
{
    struct lt_vm *found = NULL;
    Addr top = VG_(thread_get_stack_max)(tid);
    for (Addr at = sp; !found && at < sp + STACK_WORDS * sizeof(Addr) && at + sizeof(Addr) <= top;
         at += sizeof(Addr))
        found = with_global(ud, lt_guest_number(at, sizeof(Addr)));
    return found;
}

static struct lt_vm *running(ThreadId tid, Addr ud, Addr sp)
{
    struct lt_vm *found = NULL;
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (vm->ud == ud && entered_at(vm, tid, sp) != ~(Addr)0)
            found = later(found, vm, tid, sp);
    return found;
}

struct lt_vm *lt_vm_caller_in_registers(ThreadId tid, Addr ud, Addr sp)
{
    return in_registers(tid, ud, sp);
}

struct lt_vm *lt_vm_caller(ThreadId tid, Addr ud, Addr sp)
{
    struct lt_vm *vm = lt_vm_of(ud);
    if (vm || lt_vm_count(ud) == 0)
        return vm;
    vm = in_registers(tid, ud, sp);
    if (!vm)
        vm = on_stack(tid, ud, sp);
    return vm ? vm : running(tid, ud, sp);
}

struct lt_vm *lt_vm_running(ThreadId tid)
{
    Addr sp = VG_(get_SP)(tid), innermost = VG_(thread_get_stack_max)(tid);
    struct lt_vm *found = NULL;
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next) {
        Addr cframe = is_readable_by(vm, tid) ? lt_vm_cframe(vm) : 0;
        if (cframe >= sp && cframe < innermost) {
            innermost = cframe;
            found = vm;
        }
    }
    return found;
}
