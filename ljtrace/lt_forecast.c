/* lt_forecast.c - the superblock's address arithmetic, done with the registers of now. (host side, no libc;
 * see lt_forecast.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Addresses that are loaded in the superblock itself are not followed, nor is what it does to the registers:
 * VEX has already replaced reads of a register behind a write to it.
 */
#include "lt_forecast.h"
#include "lt_filter.h"
#include "lt_options.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

struct value {
    ULong is;
    Bool known;
    Bool from_sp; /* computed from the stack pointer */
};

struct forecast {
    VexGuestAMD64State state;
    struct value *of; /* each temporary */
    Bool blocks;      /* an access goes to where they may be */
};

static struct value value_of(const struct forecast *f, const IRExpr *e);

static struct value value_of_constant(const IRConst *c)
{
    if (c->tag == Ico_U64)
        return (struct value){.is = c->Ico.U64, .known = True};
    if (c->tag == Ico_U8)
        return (struct value){.is = c->Ico.U8, .known = True};
    return (struct value){0};
}

static struct value value_of_register(const struct forecast *f, const IRExpr *e)
{
    const UChar *at = (const UChar *)&f->state + e->Iex.Get.offset;
    if (e->Iex.Get.ty != Ity_I64)
        return (struct value){0};
    return (struct value){.is = *(const ULong *)at,
                          .known = True,
                          .from_sp = e->Iex.Get.offset == (Int)offsetof(VexGuestAMD64State, guest_RSP)};
}

static struct value value_of_binop(const struct forecast *f, const IRExpr *e)
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

static struct value value_of_unop(const struct forecast *f, const IRExpr *e)
{
    struct value a = value_of(f, e->Iex.Unop.arg);
    switch (e->Iex.Unop.op) {
    case Iop_64to32:
    case Iop_32Uto64:
        return (struct value){.is = (UInt)a.is, .known = a.known};
    case Iop_32Sto64:
        return (struct value){.is = (ULong)(Long)(Int)a.is, .known = a.known};
    default:
        return (struct value){0};
    }
}

static struct value value_of(const struct forecast *f, const IRExpr *e)
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
    default:
        return (struct value){0};
    }
}

/* Addresses on the stack are left out without a look-up. */
static void access(struct forecast *f, const IRExpr *addr)
{
    struct value v = value_of(f, addr);
    if (v.known && (!v.from_sp || lt_options.trace_sp) && lt_filter_holds(v.is))
        f->blocks = True;
}

static void follow(struct forecast *f, const IRStmt *st)
{
    if (st->tag == Ist_Store)
        access(f, st->Ist.Store.addr);
    if (st->tag != Ist_WrTmp)
        return;
    if (st->Ist.WrTmp.data->tag == Iex_Load)
        access(f, st->Ist.WrTmp.data->Iex.Load.addr);
    f->of[st->Ist.WrTmp.tmp] = value_of(f, st->Ist.WrTmp.data);
}

Bool lt_forecast_blocks(ThreadId tid, const IRSB *in)
{
    struct forecast f = {.of = VG_(calloc)("ljtrace.forecast", in->tyenv->types_used, sizeof *f.of)};
    VG_(get_shadow_regs_area)(tid, (UChar *)&f.state, 0, 0, sizeof f.state);
    for (Int i = 0; i < in->stmts_used; i++)
        follow(&f, in->stmts[i]);
    VG_(free)(f.of);
    return f.blocks;
}
