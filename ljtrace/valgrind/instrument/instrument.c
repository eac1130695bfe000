/* instrument.c - walk over a superblock's statements and add the code that records them. (see instrument.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * lt_instrument is called for each superblock before it runs for the first time. It copies the statements one
 * by one, and `visit` adds code before those that matter:
 *
 * Memory accesses become parts of a segment, the record of a superblock (segment.c). Accesses relative to the
 * stack pointer are left out. Whether the segment's code is filtered at run time is
 * decided by classify.c before the walk. Entries and returns of watched functions get calls: allocators of
 * Lua (luajit/heap/allocator.c), observed allocators (heaps/observe.c) and functions of --toggle-fn
 * (toggle.c). Stores that may change the state of LuaJIT's VM are handled by luajit/vmstate.c.
 * stack_sampler.c adds the counting for --sample-stacks. Finally dead_puts.c removes writes to registers that
 * nothing can observe.
 *
 * Loads whose value is not used have to be recorded too. VEX would remove them before a tool sees them;
 * base/core.c sets the option that keeps them.
 */
#include "ljtrace/valgrind/instrument/instrument.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/base/self_modifying.h"
#include "ljtrace/valgrind/heaps/observe.h"
#include "ljtrace/valgrind/instrument/classify.h"
#include "ljtrace/valgrind/instrument/dead_puts.h"
#include "ljtrace/valgrind/instrument/segment.h"
#include "ljtrace/valgrind/instrument/stack_sampler.h"
#include "ljtrace/valgrind/instrument/toggle.h"
#include "ljtrace/valgrind/luajit/allocator_calls.h"
#include "ljtrace/valgrind/luajit/images.h"
#include "ljtrace/valgrind/luajit/machine_code.h"
#include "ljtrace/valgrind/luajit/vmstate.h"
#include "ljtrace/valgrind/ring/block_filter.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

/* -- from what temporaries are computed -- */

/* Addresses that equal the same temporary plus a constant share a word in the ring (segment.h). Addresses
 * computed from the stack pointer are not recorded. To find both, the superblock's assignments are followed
 * in order, as far as they add or subtract constants, mask the stack pointer, or are the steps of string
 * instructions. Such a step adds the width of the elements, or subtracts it if the direction flag is set. */

struct lt_provenance;

/* The provenance of all temporaries of a superblock. */
struct lt_provenances {
    struct lt_provenance *of; /* indexed by the program's temporaries */
    Int sp_offset;            /* of the stack pointer in the guest state */
    /* The temporary that holds the direction flag, 1 or -1; IRTemp_INVALID: it was not read yet. */
    IRTemp direction;
};

/* The provenance of a temporary. */
struct lt_provenance {
    Bool from_sp; /* it is computed from the stack pointer */
    IRTemp root;  /* its value is that of this temporary plus `distance` */
    Int distance;
    /* The part of `distance` that is due to string instructions going up; it is negative if they go down. */
    Int stepped;
    /* Not 0: the temporary is the step of a string instruction, this number or its negative, depending on the
     * direction. */
    Int step;
};

/* Begin a superblock. */
static void provenance_begin(struct lt_provenances *o, const IRSB *in, Int sp_offset)
{
    o->of = VG_(calloc)("ljtrace.provenance", in->tyenv->types_used, sizeof *o->of);
    for (Int t = 0; t < in->tyenv->types_used; t++)
        o->of[t].root = (IRTemp)t;
    o->sp_offset = sp_offset;
    o->direction = IRTemp_INVALID;
}

/* Free the memory. */
static void provenance_end(struct lt_provenances *o)
{
    VG_(free)(o->of);
}

/* Is an atom computed from the stack pointer? */
static Bool is_from_sp(const struct lt_provenances *o, const IRExpr *e)
{
    return e->tag == Iex_RdTmp && o->of[e->Iex.RdTmp.tmp].from_sp;
}

static Bool computes_sp(const struct lt_provenances *o, const IRExpr *e)
{
    if (e->tag == Iex_Get)
        return e->Iex.Get.offset == o->sp_offset;
    if (e->tag == Iex_RdTmp)
        return is_from_sp(o, e);
    if (e->tag != Iex_Binop)
        return False;
    IROp op = e->Iex.Binop.op;
    if (op != Iop_Add64 && op != Iop_Sub64 && op != Iop_And64)
        return False;
    return is_from_sp(o, e->Iex.Binop.arg1) && e->Iex.Binop.arg2->tag == Iex_Const;
}

/* The step that a temporary is: the direction flag, shifted by the logarithm of the elements' width; 0 if it
 * is none. Only the first read of the flag counts, as another one may follow a change. */
static Int step_of(struct lt_provenances *o, IRTemp tmp, const IRExpr *e)
{
    if (e->tag == Iex_Get && e->Iex.Get.offset == (Int)offsetof(VexGuestAMD64State, guest_DFLAG) &&
        o->direction == IRTemp_INVALID) {
        o->direction = tmp;
        return 1;
    }
    if (e->tag != Iex_Binop || e->Iex.Binop.op != Iop_Shl64)
        return 0;
    const IRExpr *a = e->Iex.Binop.arg1, *b = e->Iex.Binop.arg2;
    if (a->tag != Iex_RdTmp || a->Iex.RdTmp.tmp != o->direction || b->tag != Iex_Const)
        return 0;
    UChar bits = b->Iex.Const.con->Ico.U8;
    return bits <= 3 ? 1 << bits : 0;
}

/* If the expression is a temporary plus or minus a constant, or plus a step, return the temporary's
 * provenance and set the distance. */
static const struct lt_provenance *moved_by(const struct lt_provenances *o, const IRExpr *e, Long *distance,
                                            Int *stepped)
{
    *distance = *stepped = 0;
    if (e->tag == Iex_RdTmp)
        return &o->of[e->Iex.RdTmp.tmp];
    if (e->tag != Iex_Binop || (e->Iex.Binop.op != Iop_Add64 && e->Iex.Binop.op != Iop_Sub64))
        return NULL;
    const IRExpr *a = e->Iex.Binop.arg1, *b = e->Iex.Binop.arg2;
    Bool minus = e->Iex.Binop.op == Iop_Sub64;
    if (b->tag == Iex_Const)
        *distance = (Long)b->Iex.Const.con->Ico.U64;
    else if (!minus)
        *distance = *stepped = o->of[b->Iex.RdTmp.tmp].step;
    if (minus)
        *distance = -*distance;
    return a->tag == Iex_RdTmp && (b->tag == Iex_Const || *stepped) ? &o->of[a->Iex.RdTmp.tmp] : NULL;
}

/* Follow an assignment to a temporary. Call it for all assignments, in order. */
static void provenance_assign(struct lt_provenances *o, IRTemp tmp, const IRExpr *data)
{
    Long distance;
    Int stepped;
    const struct lt_provenance *from = moved_by(o, data, &distance, &stepped);
    struct lt_provenance new = {.from_sp = computes_sp(o, data), .root = tmp, .step = step_of(o, tmp, data)};
    if (from && distance + from->distance == (Int)(distance + from->distance)) {
        new.root = from->root;
        new.distance = (Int)(distance + from->distance);
        new.stepped = stepped + from->stepped;
    }
    o->of[tmp] = new;
}

/* Split an atom into a root and a distance. If it is `stepped`, o->direction is the temporary with the
 * direction. */
static struct lt_address address_of(const struct lt_provenances *o, IRExpr *atom)
{
    if (atom->tag == Iex_Const)
        return (struct lt_address){atom, NULL, (Long)atom->Iex.Const.con->Ico.U64, 0};
    const struct lt_provenance *of = &o->of[atom->Iex.RdTmp.tmp];
    return (struct lt_address){atom, IRExpr_RdTmp(of->root), of->distance, of->stepped};
}

/* -- superblocks -- */

/* They are contiguous in the guest state, from RAX to R15. */
enum { GENERAL_REGISTERS = 16 };

/* The state of the walk over one superblock. */
struct walk {
    struct lt_segment segment;
    IRSB *out;
    Addr ip; /* of the current instruction */
    struct lt_provenances provenances;
    struct lt_code code;
    enum lt_store store; /* the kind of the current store */
    IRExpr *looked_up;   /* what lt_store_write returned for it, or NULL */
    Bool cut;            /* end the superblock after this instruction */
    UInt uncounted;      /* instructions since the last exit, for samples */
};

/* Is this a constant address in the data of an object file that contains no blocks? */
static Bool is_static(const IRExpr *addr)
{
    return addr->tag == Iex_Const && !lt_options.heap_files &&
           lt_filter_is_static(addr->Iex.Const.con->Ico.U64);
}

static void access(struct walk *w, enum raw_access kind, UInt size, IRExpr *addr, IRExpr *guard)
{
    if (!lt_accesses_recorded() || is_static(addr) ||
        (is_from_sp(&w->provenances, addr) && !lt_options.trace_sp))
        return;
    struct lt_address a = address_of(&w->provenances, addr);
    if (a.stepped)
        lt_segment_direction(&w->segment, w->provenances.direction);
    lt_segment_access(&w->segment, w->ip, kind, size, &a, guard);
}

static UInt size_of(const struct walk *w, const IRExpr *e)
{
    return sizeofIRType(typeOfIRExpr(w->out->tyenv, e));
}

static void visit_assignment(struct walk *w, const IRStmt *st)
{
    const IRExpr *data = st->Ist.WrTmp.data;
    provenance_assign(&w->provenances, st->Ist.WrTmp.tmp, data);
    if (data->tag == Iex_Load)
        access(w, RAW_LOAD, sizeofIRType(data->Iex.Load.ty), data->Iex.Load.addr, NULL);
}

static void visit_guarded_load(struct walk *w, const IRLoadG *lg)
{
    IRType loaded, widened;
    typeOfIRLoadGOp(lg->cvt, &widened, &loaded);
    access(w, RAW_LOAD, sizeofIRType(loaded), lg->addr, lg->guard);
}

static void visit_cas(struct walk *w, const IRCAS *cas)
{
    UInt size = size_of(w, cas->dataLo) * (cas->dataHi ? 2 : 1);
    access(w, RAW_MODIFY, size, cas->addr, NULL);
}

static void visit_llsc(struct walk *w, const IRStmt *st)
{
    if (st->Ist.LLSC.storedata)
        access(w, RAW_STORE, size_of(w, st->Ist.LLSC.storedata), st->Ist.LLSC.addr, NULL);
    else
        access(w, RAW_LOAD, sizeofIRType(typeOfIRTemp(w->out->tyenv, st->Ist.LLSC.result)), st->Ist.LLSC.addr,
               NULL);
}

static void visit_dirty(struct walk *w, const IRDirty *d)
{
    static const enum raw_access kinds[] = {
        [Ifx_Read] = RAW_LOAD, [Ifx_Write] = RAW_STORE, [Ifx_Modify] = RAW_MODIFY};
    Bool always = d->guard->tag == Iex_Const && d->guard->Iex.Const.con->Ico.U1;
    if (d->mFx != Ifx_None)
        access(w, kinds[d->mFx], d->mSize, d->mAddr, always ? NULL : d->guard);
}

/* Make a call of a function that reads the thread's general registers and program counter. */
static IRDirty *call_with_registers(const HChar *name, void *function)
{
    IRExpr **arg = mkIRExprVec_1(IRExpr_GSPTR());
    IRDirty *call = unsafeIRDirty_0_N(0, name, VG_(fnptr_to_fnentry)(function), arg);
    call->nFxState = 2;
    VG_(memset)(call->fxState, 0, sizeof call->fxState);
    call->fxState[0].fx = call->fxState[1].fx = Ifx_Read;
    call->fxState[0].offset = offsetof(VexGuestAMD64State, guest_RAX);
    call->fxState[0].size = GENERAL_REGISTERS * sizeof(ULong);
    call->fxState[1].offset = offsetof(VexGuestAMD64State, guest_RIP);
    call->fxState[1].size = sizeof(ULong);
    return call;
}

/* At the entry of a watched function: its arguments are in registers; the program counter is updated for the
 * call. */
static void call_enter(struct walk *w, const HChar *name, void *enter)
{
    lt_segment_end(&w->segment);
    addStmtToIRSB(w->out,
                  IRStmt_Put(offsetof(VexGuestAMD64State, guest_RIP), IRExpr_Const(IRConst_U64(w->ip))));
    addStmtToIRSB(w->out, IRStmt_Dirty(call_with_registers(name, enter)));
}

/* At a return that may end a watched call: compare the stack pointer. */
static void call_return(struct walk *w)
{
    IRTypeEnv *env = w->out->tyenv;
    IRTemp sp = newIRTemp(env, Ity_I64), awaited = newIRTemp(env, Ity_I64), ends = newIRTemp(env, Ity_I1);
    IRExpr *at = IRExpr_Const(IRConst_U64((Addr)&lt_ring->return_sp));
    addStmtToIRSB(w->out, IRStmt_WrTmp(sp, IRExpr_Get(w->provenances.sp_offset, Ity_I64)));
    addStmtToIRSB(w->out, IRStmt_WrTmp(awaited, IRExpr_Load(Iend_LE, Ity_I64, at)));
    IRExpr *equal = IRExpr_Binop(Iop_CmpEQ64, IRExpr_RdTmp(sp), IRExpr_RdTmp(awaited));
    addStmtToIRSB(w->out, IRStmt_WrTmp(ends, equal));
    IRDirty *call = call_with_registers("lt_lua_returned", lt_lua_returned);
    call->guard = IRExpr_RdTmp(ends);
    addStmtToIRSB(w->out, IRStmt_Dirty(call));
}

/* Before a store. If it may change the VM state, the change is written into the ring before its instruction.
 * So the instruction belongs to the new state, and all that was counted and recorded before belongs to the
 * old one. */
static void visit_store(struct walk *w, const IRStmt *st)
{
    IRExpr *addr = st->Ist.Store.addr;
    w->store = lt_store_kind(&w->code, st, is_from_sp(&w->provenances, addr));
    w->looked_up = NULL;
    if (w->store == LT_STORE_WRITTEN && lt_segment_split(&w->segment, w->ip)) {
        if (!lt_accesses_recorded())
            lt_segment_check_room(&w->segment);
        w->looked_up = lt_store_write(&w->code, st);
        lt_segment_other(&w->segment, RAW_STATE_BYTES);
    } else if (w->store == LT_STORE_WRITTEN)
        w->store = LT_STORE_STATE;
    access(w, RAW_STORE, size_of(w, st->Ist.Store.data), addr, NULL);
}

/* After a store. If only a call after the store can find out what was stored, the segment ends here. If
 * accesses are recorded, that change is reported at the start of the next superblock, so this superblock ends
 * after the instruction: what comes between belongs to the old state. */
static void leave_store(struct walk *w, const IRStmt *st)
{
    if (w->store == LT_STORE_STATE) {
        w->cut = lt_accesses_recorded();
        lt_segment_end(&w->segment);
    }
    if (w->store == LT_STORE_WRITTEN && w->looked_up)
        lt_store_see(&w->code, st, w->looked_up);
    else if (w->store == LT_STORE_STATE || w->store == LT_STORE_LOOKED_UP)
        lt_store_look_up(&w->code, st);
}

/* End the superblock before `mark`: control continues there. */
static void cut_before(IRSB *out, const IRStmt *mark)
{
    out->next = IRExpr_Const(IRConst_U64(mark->Ist.IMark.addr + mark->Ist.IMark.delta));
    out->jumpkind = Ijk_Boring;
}

static IRExpr *stack_pointer(const struct walk *w)
{
    IRTemp sp = newIRTemp(w->out->tyenv, Ity_I64);
    addStmtToIRSB(w->out, IRStmt_WrTmp(sp, IRExpr_Get(w->provenances.sp_offset, Ity_I64)));
    return IRExpr_RdTmp(sp);
}

/* At the entry of a function of --toggle-fn. */
static void call_toggle_enter(struct walk *w)
{
    lt_segment_end(&w->segment);
    addStmtToIRSB(w->out,
                  IRStmt_Dirty(unsafeIRDirty_0_N(0, "lt_toggle_enter", VG_(fnptr_to_fnentry)(lt_toggle_enter),
                                                 mkIRExprVec_1(stack_pointer(w)))));
}

/* At a return: call lt_toggle_return if the stack pointer is at or above the end of a call of such a
 * function. */
static void call_toggle_return(struct walk *w)
{
    IRTypeEnv *env = w->out->tyenv;
    IRTemp end = newIRTemp(env, Ity_I64), above = newIRTemp(env, Ity_I1);
    IRExpr *sp = stack_pointer(w), *at = IRExpr_Const(IRConst_U64((Addr)&lt_toggle_sp));
    addStmtToIRSB(w->out, IRStmt_WrTmp(end, IRExpr_Load(Iend_LE, Ity_I64, at)));
    addStmtToIRSB(w->out, IRStmt_WrTmp(above, IRExpr_Binop(Iop_CmpLE64U, IRExpr_RdTmp(end), sp)));
    IRDirty *call = unsafeIRDirty_0_N(0, "lt_toggle_return", VG_(fnptr_to_fnentry)(lt_toggle_return),
                                      mkIRExprVec_1(deepCopyIRExpr(sp)));
    call->guard = IRExpr_RdTmp(above);
    addStmtToIRSB(w->out, IRStmt_Dirty(call));
}

/* The same for observed functions. */
static void call_observe_return(struct walk *w)
{
    IRTypeEnv *env = w->out->tyenv;
    IRTemp end = newIRTemp(env, Ity_I64), above = newIRTemp(env, Ity_I1);
    IRExpr *sp = stack_pointer(w), *at = IRExpr_Const(IRConst_U64((Addr)&lt_observe_sp));
    addStmtToIRSB(w->out, IRStmt_WrTmp(end, IRExpr_Load(Iend_LE, Ity_I64, at)));
    addStmtToIRSB(w->out, IRStmt_WrTmp(above, IRExpr_Binop(Iop_CmpLE64U, IRExpr_RdTmp(end), sp)));
    IRDirty *call = call_with_registers("lt_observe_return", lt_observe_return);
    call->guard = IRExpr_RdTmp(above);
    addStmtToIRSB(w->out, IRStmt_Dirty(call));
}

static void visit_instruction(struct walk *w, const IRStmt *st)
{
    w->ip = st->Ist.IMark.addr + st->Ist.IMark.delta;
    if (lt_toggle_is_entry(w->ip))
        call_toggle_enter(w);
    if (lt_lua_is_entry(w->ip))
        call_enter(w, "lt_lua_entered", lt_lua_entered);
    if (lt_observe_is_entry(w->ip))
        call_enter(w, "lt_observe_enter", lt_observe_enter);
    lt_segment_instruction(&w->segment);
    w->uncounted++;
}

/* At an exit: count the instructions up to here. */
static void count_for_samples(struct walk *w)
{
    if (lt_options.sample_stacks && w->uncounted)
        lt_stack_sample_count(w->out, w->uncounted);
    w->uncounted = 0;
}

/* Add the code that records a statement, before the statement itself. */
static void visit(struct walk *w, const IRStmt *st)
{
    switch (st->tag) {
    case Ist_IMark:
        visit_instruction(w, st);
        break;
    case Ist_WrTmp:
        visit_assignment(w, st);
        break;
    case Ist_Store:
        visit_store(w, st);
        break;
    case Ist_StoreG:
        access(w, RAW_STORE, size_of(w, st->Ist.StoreG.details->data), st->Ist.StoreG.details->addr,
               st->Ist.StoreG.details->guard);
        break;
    case Ist_LoadG:
        visit_guarded_load(w, st->Ist.LoadG.details);
        break;
    case Ist_CAS:
        visit_cas(w, st->Ist.CAS.details);
        break;
    case Ist_LLSC:
        visit_llsc(w, st);
        break;
    case Ist_Dirty:
        visit_dirty(w, st->Ist.Dirty.details);
        break;
    case Ist_Exit:
        lt_segment_exit(&w->segment);
        count_for_samples(w);
        break;
    default:
        break;
    }
}

/* Copy the statements before the first instruction. These are the translator's checks for modified code,
 * which are left out for code that is sealed. */
static Int copy_preamble(const IRSB *in, IRSB *out, const VexGuestExtents *extents)
{
    Bool sealed = lt_smc_is_sealed(extents);
    Int i = 0;
    for (; i < in->stmts_used && in->stmts[i]->tag != Ist_IMark; i++)
        if (!sealed || !lt_smc_is_check(in->stmts[i]))
            addStmtToIRSB(out, in->stmts[i]);
    return i;
}

/* How the segments get into the ring. LuaJIT's code and code generated at run time nearly always access
 * blocks, so a filter would not pay for them; other code is classified. In a program with Lua states no
 * segment is written by a call, since reports that are due at the next superblock's start (lt_ring_call_back)
 * would have to wait for that call. */
static enum lt_way way_of(const struct walk *w, ThreadId tid, const IRSB *in)
{
    if (w->code.is_lua || w->code.is_run_time)
        return LT_ALWAYS;
    enum lt_class to = lt_accesses_recorded() ? lt_classify(tid, in) : LT_UNPREDICTED;
    if (to == LT_TO_BLOCKS)
        return LT_ALWAYS;
    return to == LT_ELSEWHERE && !lt_vm_first() ? LT_CALLED : LT_FILTERED;
}

IRSB *lt_instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                    const VexGuestExtents *extents, const VexArchInfo *host, IRType guest_word,
                    IRType host_word)
{
    static struct walk w; /* static because it is large; translation is not reentrant */
    IRSB *out = deepCopyIRSBExceptStmts(in);
    w.out = out;
    provenance_begin(&w.provenances, in, layout->offset_SP);
    w.code = (struct lt_code){out, host_is_lua_code(closure->readdr),
                              lt_vm_first() && lt_is_run_time_code(closure->readdr)};
    Int i = copy_preamble(in, out, extents);
    lt_segment_begin(&w.segment, out, way_of(&w, closure->tid, in));
    if (lt_accesses_recorded() && w.segment.way != LT_CALLED)
        lt_segment_check_room(&w.segment);
    w.uncounted = 0;
    w.cut = False;
    if (lt_options.sample_stacks)
        lt_stack_sample_check(out);
    for (; i < in->stmts_used && !(w.cut && in->stmts[i]->tag == Ist_IMark); i++) {
        visit(&w, in->stmts[i]);
        addStmtToIRSB(out, in->stmts[i]);
        if (in->stmts[i]->tag == Ist_Store)
            leave_store(&w, in->stmts[i]);
    }
    if (i < in->stmts_used)
        cut_before(out, in->stmts[i]);
    lt_segment_finish(&w.segment);
    count_for_samples(&w);
    if (out->jumpkind == Ijk_Call && w.code.is_run_time && lt_accesses_recorded())
        lt_call_emit(out, w.ip);
    if (out->jumpkind == Ijk_Ret && lt_lua_may_return(closure->readdr))
        call_return(&w);
    if (out->jumpkind == Ijk_Ret && lt_observe_wanted())
        call_observe_return(&w);
    if (out->jumpkind == Ijk_Ret && lt_toggle_wanted())
        call_toggle_return(&w);
    provenance_end(&w.provenances);
    lt_dead_puts_remove(out);
    return out;
}
