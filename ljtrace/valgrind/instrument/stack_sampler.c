/* stack_sampler.c - count instructions, and record the stack after each interval.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/core/caller.h"
#include "ljtrace/luajit/core/objects.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/valgrind/base/ir.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/instrument/stack_sampler.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "memtrace/memtrace.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"

static ULong s_executed; /* instructions executed, counted by generated code */
static ULong s_due, s_last;
static ULong s_paused; /* s_executed when the pause began, plus 1; 0 = no pause */

/* Take a sample. Called from generated code. */
static void take_sample(void)
{
    static struct lt_stack stack;
    ThreadId tid = VG_(get_running_tid)();
    ULong weight = s_executed - s_last;
    if (s_paused)
        return;
    s_due = s_executed + lt_options.sample_stacks;
    if (weight == 0) /* before the program's first instruction */
        return;
    s_last = s_executed;
    struct lt_vm *vm = lt_vm_running(tid);
    if (vm)
        lt_take_sampled_stack(tid, vm, &stack);
    else
        c_stack_take(tid, &stack);
    HOST_PUT(sample, .vm = vm ? lt_machine_state(vm) : MT_VM_C, .heap = vm ? lt_vm_heap(vm) : 0,
             .instructions = lt_ring->instructions, .weight = weight, .ips = (const uint64_t *)stack.ips,
             .ips_count = stack.depth);
}

void lt_stack_sample_check(IRSB *out)
{
    IRExpr *executed = lt_ir_load(out, &s_executed), *due = lt_ir_load(out, &s_due);
    IRDirty *call =
        unsafeIRDirty_0_N(0, "lt_take_sample", VG_(fnptr_to_fnentry)(take_sample), mkIRExprVec_0());
    call->guard = lt_ir_assign(out, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, due, executed));
    addStmtToIRSB(out, IRStmt_Dirty(call));
}

void lt_stack_sample_count(IRSB *out, UInt n)
{
    IRExpr *sum =
        lt_ir_assign(out, Ity_I64, IRExpr_Binop(Iop_Add64, lt_ir_load(out, &s_executed), lt_ir_word(n)));
    addStmtToIRSB(out, IRStmt_Store(Iend_LE, lt_ir_word((Addr)&s_executed), sum));
}

void lt_stack_sample_pause(Bool pause)
{
    if (pause && !s_paused)
        s_paused = s_executed + 1;
    else if (!pause && s_paused) {
        s_executed = s_paused - 1;
        s_paused = 0;
    }
}
