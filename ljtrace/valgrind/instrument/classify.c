/* classify.c - compute the addresses of a superblock from the current registers. (see classify.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Loads from anonymous memory have the value that is there now. Stores of the superblock, and its changes of
 * registers, are not tracked: VEX has already replaced reads of a register after a write to it.
 */
#include "ljtrace/valgrind/instrument/classify.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/ring/block_filter.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

/* The value of an expression, as far as it is known. */
struct value {
    ULong is;
    Bool known;
    Bool from_sp; /* computed from the stack pointer */
};

/* The state of the analysis. */
struct prediction {
    VexGuestAMD64State state;
    struct value *of; /* indexed by temporary */
    Bool blocks;      /* an access goes to an address that may be in a block */
    Bool unknown;     /* the address of an access is not known */
};

static struct value value_of(const struct prediction *f, const IRExpr *e);

static struct value value_of_constant(const IRConst *c)
{
    if (c->tag == Ico_U64)
        return (struct value){.is = c->Ico.U64, .known = True};
    if (c->tag == Ico_U8)
        return (struct value){.is = c->Ico.U8, .known = True};
    return (struct value){0};
}

static struct value value_of_register(const struct prediction *f, const IRExpr *e)
{
    const UChar *at = (const UChar *)&f->state + e->Iex.Get.offset;
    if (e->Iex.Get.ty != Ity_I64)
        return (struct value){0};
    return (struct value){.is = *(const ULong *)at,
                          .known = True,
                          .from_sp = e->Iex.Get.offset == (Int)offsetof(VexGuestAMD64State, guest_RSP)};
}

static struct value value_of_binop(const struct prediction *f, const IRExpr *e)
{
    struct value a = value_of(f, e->Iex.Binop.arg1), b = value_of(f, e->Iex.Binop.arg2);
    struct value v = {.known = a.known && b.known, .from_sp = a.from_sp};
    switch (e->Iex.Binop.op) {
    case Iop_Add64:
        v.is = a.is + b.is;
        return v;
    case Iop_Sub64:
        v.is = a.is - b.is;
        return v;
    case Iop_And64:
        v.is = a.is & b.is;
        return v;
    case Iop_Shl64:
        v.is = a.is << (b.is & 63);
        return v;
    default:
        return (struct value){0};
    }
}

/* Can the memory be read? Pages of files are not read: there may be nothing after the end of a file, and the
 * program need not reach this load. */
static Bool can_be_read(Addr a, SizeT size)
{
    const NSegment *segment = VG_(am_find_nsegment)(a);
    return segment && segment->kind == SkAnonC && segment->hasR && size <= segment->end - a + 1;
}

static struct value value_in_memory(const struct prediction *f, const IRExpr *e)
{
    struct value v = {0}, at = value_of(f, e->Iex.Load.addr);
    SizeT size = sizeofIRType(e->Iex.Load.ty);
    v.known = at.known && size <= sizeof v.is && can_be_read(at.is, size);
    if (v.known)
        VG_(memcpy)(&v.is, (const void *)at.is, size); /* little-endian */
    return v;
}

static struct value value_of_unop(const struct prediction *f, const IRExpr *e)
{
    struct value a = value_of(f, e->Iex.Unop.arg);
    switch (e->Iex.Unop.op) {
    case Iop_8Uto32:
    case Iop_8Uto64:
    case Iop_16Uto32:
    case Iop_16Uto64:
        return a;
    case Iop_64to32:
    case Iop_32Uto64:
        return (struct value){.is = (UInt)a.is, .known = a.known};
    case Iop_32Sto64:
        return (struct value){.is = (ULong)(Long)(Int)a.is, .known = a.known};
    default:
        return (struct value){0};
    }
}

static struct value value_of(const struct prediction *f, const IRExpr *e)
{
    switch (e->tag) {
    case Iex_RdTmp:
        return f->of[e->Iex.RdTmp.tmp];
    case Iex_Const:
        return value_of_constant(e->Iex.Const.con);
    case Iex_Get:
        return value_of_register(f, e);
    case Iex_Binop:
        return value_of_binop(f, e);
    case Iex_Unop:
        return value_of_unop(f, e);
    case Iex_Load:
        return value_in_memory(f, e);
    default:
        return (struct value){0};
    }
}

/* Predict an access. Addresses relative to the stack pointer are not recorded, so they do not count. */
static void access(struct prediction *f, const IRExpr *addr)
{
    struct value v = value_of(f, addr);
    if (v.from_sp && !lt_options.trace_sp)
        return;
    f->unknown |= !v.known;
    f->blocks |= v.known && lt_filter_holds(v.is);
}

static void follow_assignment(struct prediction *f, const IRStmt *st)
{
    const IRExpr *data = st->Ist.WrTmp.data;
    if (data->tag == Iex_Load)
        access(f, data->Iex.Load.addr);
    f->of[st->Ist.WrTmp.tmp] = value_of(f, data);
}

static void follow(struct prediction *f, const IRStmt *st)
{
    if (st->tag == Ist_WrTmp)
        follow_assignment(f, st);
    else if (st->tag == Ist_Store)
        access(f, st->Ist.Store.addr);
    else if (st->tag == Ist_LoadG)
        access(f, st->Ist.LoadG.details->addr);
    else if (st->tag == Ist_StoreG)
        access(f, st->Ist.StoreG.details->addr);
    else if (st->tag == Ist_CAS)
        access(f, st->Ist.CAS.details->addr);
    else if (st->tag == Ist_LLSC)
        access(f, st->Ist.LLSC.addr);
    else if (st->tag == Ist_Dirty && st->Ist.Dirty.details->mFx != Ifx_None)
        access(f, st->Ist.Dirty.details->mAddr);
}

enum lt_class lt_classify(ThreadId tid, const IRSB *in)
{
    struct prediction f = {.of = VG_(calloc)("ljtrace.classify", in->tyenv->types_used, sizeof *f.of)};
    VG_(get_shadow_regs_area)(tid, (UChar *)&f.state, 0, 0, sizeof f.state);
    for (Int i = 0; i < in->stmts_used; i++)
        follow(&f, in->stmts[i]);
    VG_(free)(f.of);
    return f.blocks ? LT_TO_BLOCKS : f.unknown ? LT_UNPREDICTED : LT_ELSEWHERE;
}
