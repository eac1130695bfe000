/* vmstate.c - watch the words with the states of the VMs, and record their changes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/luajit/vmstate.h"
#include "ljtrace/luajit/jit/assembler.h"
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/valgrind/base/ir.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "memtrace/memtrace.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"

enum { MAX_DISPLACEMENTS = 8 };
/* The number of calls for stores of constants to a state's word, from which displacements are learned. */
enum { LESSONS = 1000 };
/* The states that generated code writes into the ring itself: all traces, and LuaJIT's first few states,
 * which include all frequent ones. */
enum { PLAIN_STATES = 4, MAX_TRACE = 65535 };

UChar lt_watch_table[LT_WATCH_SLOTS];

static Long s_displacements[MAX_DISPLACEMENTS]; /* of stores to a state's word */

static Addr state_word(const struct lt_vm *vm)
{
    return vm->g + vm->layout->vmstate;
}

static Addr recorder_word(const struct lt_vm *vm)
{
    return vm->layout->recorder ? vm->g + vm->layout->recorder + vm->at->recorder_pc : 0;
}

static void mark(Addr a, UChar how)
{
    lt_watch_table[a >> 2 & (LT_WATCH_SLOTS - 1)] |= how;
}

static void write_state(struct lt_vm *vm)
{
    vm->unreported = False;
    lt_ring_put_state(state_word(vm), (Int)lt_vm_u32(state_word(vm)));
}

static void write_states(void)
{
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (vm->unreported)
            write_state(vm);
}

static Bool is_any_assembling(void)
{
    const struct lt_vm *vm = lt_vm_first();
    while (vm && !vm->assembling)
        vm = vm->next;
    return vm != NULL;
}

/* Does the tool have to see all stores of constants to the state? It has to while it learns, and if one of
 * these constants means the assembler. */
static Bool must_see(const struct lt_vm *vm)
{
    Bool assembler = False;
    for (UInt i = 0; i < PLAIN_STATES; i++)
        assembler |= vm->layout->vm[i] == MT_VM_ASM;
    return assembler || vm->stores < LESSONS;
}

static void watch(const struct lt_vm *vm)
{
    if (lt_options.lua_states)
        mark(state_word(vm), must_see(vm) ? LT_WATCH_HIT | LT_WATCH_CALLS : LT_WATCH_HIT);
    if (recorder_word(vm))
        mark(recorder_word(vm), LT_WATCH_HIT);
}

/* Rebuild the table. */
static void watch_all(void)
{
    VG_(memset)(lt_watch_table, is_any_assembling() ? LT_WATCH_CALLS : 0, sizeof lt_watch_table);
    for (const struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        watch(vm);
}

/* Notice when the VM begins or ends to assemble. It is not known where the assembler keeps its count before
 * it stores to it, so all stores are looked up while it assembles. */
static void note_assembly(struct lt_vm *vm)
{
    Bool now = lt_machine_state(vm) == MT_VM_ASM;
    if (now == vm->assembling || !vm->layout->recorder)
        return;
    vm->assembling = now;
    if (now) {
        lt_recording_done(vm);
        lt_asm_begin(vm);
    } else {
        lt_asm_end(vm);
    }
    watch_all();
}

static void note_state(struct lt_vm *vm)
{
    note_assembly(vm);
    if (vm->stores < LESSONS && ++vm->stores == LESSONS)
        watch_all();
    vm->unreported = True;
    if (lt_options.trace_mem)
        lt_ring_call_back(write_states);
    else
        write_state(vm);
}

void lt_watch_report_all(void)
{
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (vm->stores)
            write_state(vm);
}

static void watch_begin(struct lt_vm *vm)
{
    uint64_t states = 0;
    for (UInt i = 0; i < LUA_LAYOUT_VM_STATES; i++)
        states |= (uint64_t)(vm->layout->vm[i] & 15) << 4 * i;
    if (lt_options.lua_states)
        HOST_PUT(machine, .count = LUA_LAYOUT_VM_STATES, .addr = state_word(vm), .heap = lt_vm_heap(vm),
                 .states = states);
    watch(vm);
}

static void watch_end(struct lt_vm *vm)
{
    if (lt_options.lua_states)
        HOST_PUT(machine, .addr = state_word(vm), .heap = lt_vm_heap(vm));
}

Bool lt_watch_is_state_word(Addr a)
{
    for (const struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (a == state_word(vm))
            return True;
    return False;
}

Bool lt_watch_is_state_displacement(Long displacement)
{
    for (UInt i = 0; displacement && i < MAX_DISPLACEMENTS; i++)
        if (s_displacements[i] == displacement)
            return True;
    return False;
}

static void learn(Long displacement)
{
    static UInt next;
    if (displacement && !lt_watch_is_state_displacement(displacement))
        s_displacements[next++ % MAX_DISPLACEMENTS] = displacement;
}

void lt_watch_hit(Addr a, ULong displacement)
{
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (a == state_word(vm)) {
            learn((Long)displacement);
            note_state(vm);
        } else if (a == recorder_word(vm))
            lt_recording_step(vm);
        else if (vm->assembling)
            lt_asm_store(vm, a);
}

Bool lt_watch_is_state(UInt value)
{
    return (Int)~value >= 0 && ~value < LUA_LAYOUT_VM_STATES;
}

Bool lt_watch_is_plain_state(Int state)
{
    return state > 0 ? state <= MAX_TRACE : ~state >= 0 && ~state < PLAIN_STATES;
}

Bool lt_watch_is_recorder(Long displacement)
{
    for (const struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        if (displacement == vm->at->recorder_pc)
            return True;
    return !lt_vm_first() &&
           (displacement == luajit_offsets(1)->recorder_pc || displacement == luajit_offsets(0)->recorder_pc);
}

void lt_watch_init(void)
{
    lt_vm_hook(&(struct lt_vm_hooks){.begins = watch_begin, .ends = watch_end, .ended = watch_all});
}

/* -- the code for stores -- */

/* The expression from which a temporary is computed; NULL = it is not in this superblock. */
static const IRExpr *definition(const IRSB *out, const IRExpr *e)
{
    for (Int i = out->stmts_used - 1; e->tag == Iex_RdTmp && i >= 0; i--) {
        const IRStmt *st = out->stmts[i];
        if (st->tag == Ist_WrTmp && st->Ist.WrTmp.tmp == e->Iex.RdTmp.tmp)
            return st->Ist.WrTmp.data;
    }
    return NULL;
}

/* The displacement of an address that is a register plus a constant; 0 = it has another form. */
static Long displacement(const IRSB *out, const IRExpr *addr)
{
    const IRExpr *e = definition(out, addr);
    Bool plus =
        e && e->tag == Iex_Binop && e->Iex.Binop.op == Iop_Add64 && e->Iex.Binop.arg2->tag == Iex_Const;
    return plus ? (Long)e->Iex.Binop.arg2->Iex.Const.con->Ico.U64 : 0;
}

/* The same, but look through copies and changes of width. */
static const IRExpr *computation(const IRSB *out, const IRExpr *e)
{
    for (;;) {
        e = definition(out, e);
        Bool widens =
            e && e->tag == Iex_Unop && (e->Iex.Unop.op == Iop_64to32 || e->Iex.Unop.op == Iop_32Uto64);
        if (widens)
            e = e->Iex.Unop.arg;
        else if (!e || e->tag != Iex_RdTmp)
            return e;
    }
}

/* Is this 4-byte value another one minus 1? */
static Bool is_decrement(const IRSB *out, const IRExpr *e)
{
    const IRExpr *from = computation(out, e);
    if (!from || from->tag != Iex_Binop || from->Iex.Binop.arg2->tag != Iex_Const)
        return False;
    Int by = (Int)from->Iex.Binop.arg2->Iex.Const.con->Ico.U32;
    IROp op = from->Iex.Binop.op;
    return (op == Iop_Sub32 && by == 1) || ((op == Iop_Add32 || op == Iop_Add64) && by == -1);
}

static UInt size_of(const struct lt_code *c, const IRExpr *e)
{
    return sizeofIRType(typeOfIRExpr(c->out->tyenv, e));
}

/* Can this 4-byte constant be a VM state? */
static Bool is_state_of_lua(const IRExpr *data)
{
    return data->tag == Iex_Const && lt_watch_is_state(data->Iex.Const.con->Ico.U32);
}

static Bool may_be_watched(const struct lt_code *c, const IRStmt *st, Bool from_sp)
{
    const IRExpr *data = st->Ist.Store.data;
    UInt size = size_of(c, data);
    if (size != 8 && !lt_options.lua_states)
        return False;
    if (from_sp)
        return c->is_lua && size == 4 && is_decrement(c->out, data);
    if (!c->is_lua)
        return c->is_run_time && size == 4 && data->tag == Iex_Const;
    if (size == 4)
        return data->tag != Iex_Const || is_state_of_lua(data);
    return size == 8 && lt_watch_is_recorder(displacement(c->out, st->Ist.Store.addr));
}

/* Is this a store that changes the VM state, as far as the code shows? */
static Bool changes_state(const struct lt_code *c, const IRStmt *st)
{
    const IRExpr *data = st->Ist.Store.data, *addr = st->Ist.Store.addr;
    if (size_of(c, data) != 4)
        return False;
    if (c->is_lua && data->tag == Iex_Const)
        return is_state_of_lua(data);
    if (addr->tag == Iex_Const)
        return lt_watch_is_state_word(addr->Iex.Const.con->Ico.U64);
    return lt_watch_is_state_displacement(displacement(c->out, addr));
}

static Bool can_be_written(const IRExpr *data)
{
    return data->tag == Iex_Const && lt_watch_is_plain_state((Int)data->Iex.Const.con->Ico.U32);
}

enum lt_store lt_store_kind(const struct lt_code *c, const IRStmt *st, Bool from_sp)
{
    if (!may_be_watched(c, st, from_sp))
        return LT_STORE_PLAIN;
    if (!changes_state(c, st))
        return LT_STORE_LOOKED_UP;
    return can_be_written(st->Ist.Store.data) ? LT_STORE_WRITTEN : LT_STORE_STATE;
}

/* The byte of the table for the store's address. */
static IRExpr *look(IRSB *out, IRExpr *addr)
{
    IRExpr *e = lt_ir_assign(out, Ity_I64, IRExpr_Binop(Iop_Shr64, addr, IRExpr_Const(IRConst_U8(2))));
    e = lt_ir_assign(out, Ity_I64, IRExpr_Binop(Iop_And64, e, lt_ir_word(LT_WATCH_SLOTS - 1)));
    e = lt_ir_assign(out, Ity_I64, IRExpr_Binop(Iop_Add64, e, lt_ir_word((Addr)lt_watch_table)));
    return lt_ir_assign(out, Ity_I8, IRExpr_Load(Iend_LE, Ity_I8, e));
}

/* An I1: is this byte not 0? */
static IRExpr *is_set(IRSB *out, IRExpr *byte)
{
    return lt_ir_assign(out, Ity_I1, IRExpr_Binop(Iop_CmpNE8, byte, IRExpr_Const(IRConst_U8(0))));
}

static void call_if(IRSB *out, IRExpr *guard, IRExpr *addr)
{
    IRExpr *moved = lt_ir_word((ULong)displacement(out, addr));
    IRDirty *call =
        unsafeIRDirty_0_N(0, "lt_watch_hit", VG_(fnptr_to_fnentry)(lt_watch_hit), mkIRExprVec_2(addr, moved));
    call->guard = guard;
    addStmtToIRSB(out, IRStmt_Dirty(call));
}

void lt_store_look_up(const struct lt_code *c, const IRStmt *st)
{
    IRExpr *addr = st->Ist.Store.addr;
    call_if(c->out, is_set(c->out, look(c->out, addr)), addr);
}

static IRExpr *combine(IRSB *out, IROp op, IRExpr *a, IRExpr *b)
{
    return lt_ir_assign(out, Ity_I64, IRExpr_Binop(op, a, b));
}

/* raw_state() of an address that is only known when the code runs. */
static IRExpr *address_and_state(IRSB *out, IRExpr *addr, Int state)
{
    if (addr->tag == Iex_Const)
        return lt_ir_word(raw_state(addr->Iex.Const.con->Ico.U64, state));
    IRExpr *shifted = combine(out, Iop_Shl64, addr, IRExpr_Const(IRConst_U8(RAW_STATE_SHIFT)));
    return combine(out, Iop_Or64, shifted, lt_ir_word(raw_state(0, state)));
}

/* Add the record. Returns the cursor after it. */
static IRExpr *put(IRSB *out, IRExpr *cursor, IRExpr *addr, Int state)
{
    IRExpr *words = combine(out, Iop_Add64, cursor, lt_ir_word(RAW_STATE_HEADER_BYTES));
    IRExpr *second = combine(out, Iop_Add64, words, lt_ir_word(sizeof(ULong)));
    IRExpr *header = IRExpr_Const(IRConst_U32(raw_state_header()));
    addStmtToIRSB(out, IRStmt_Store(Iend_LE, cursor, header));
    addStmtToIRSB(out, IRStmt_Store(Iend_LE, words, lt_ir_load(out, &lt_ring->instructions)));
    addStmtToIRSB(out, IRStmt_Store(Iend_LE, second, address_and_state(out, addr, state)));
    return combine(out, Iop_Add64, cursor, lt_ir_word(RAW_STATE_BYTES));
}

/* In a trace, a store with a known displacement is hardly ever to another word, and the collector ignores
 * such a one. LuaJIT's own code stores such constants to other words as well, so it looks up the address. */
IRExpr *lt_store_write(const struct lt_code *c, const IRStmt *st)
{
    IRSB *out = c->out;
    IRExpr *addr = st->Ist.Store.addr, *cursor = lt_ir_load(out, &lt_ring->cursor);
    IRExpr *next = put(out, cursor, addr, (Int)st->Ist.Store.data->Iex.Const.con->Ico.U32);
    IRExpr *byte = c->is_lua ? look(out, addr) : NULL;
    if (byte)
        next = lt_ir_assign(out, Ity_I64, IRExpr_ITE(is_set(out, byte), next, cursor));
    addStmtToIRSB(out, IRStmt_Store(Iend_LE, lt_ir_word((Addr)&lt_ring->cursor), next));
    return byte;
}

void lt_store_see(const struct lt_code *c, const IRStmt *st, IRExpr *found)
{
    IRExpr *more = IRExpr_Binop(Iop_And8, found, IRExpr_Const(IRConst_U8(LT_WATCH_CALLS)));
    call_if(c->out, is_set(c->out, lt_ir_assign(c->out, Ity_I8, more)), st->Ist.Store.addr);
}
