/* provenance.c - follow the assignments of a superblock: from what is each temporary computed? (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/instrument/provenance.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_mallocfree.h"

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

void lt_provenance_begin(struct lt_provenances *o, const IRSB *in, Int sp_offset)
{
    o->of = VG_(calloc)("ljtrace.provenance", in->tyenv->types_used, sizeof *o->of);
    for (Int t = 0; t < in->tyenv->types_used; t++)
        o->of[t].root = (IRTemp)t;
    o->sp_offset = sp_offset;
    o->direction = IRTemp_INVALID;
}

void lt_provenance_end(struct lt_provenances *o)
{
    VG_(free)(o->of);
}

Bool lt_is_from_sp(const struct lt_provenances *o, const IRExpr *e)
{
    return e->tag == Iex_RdTmp && o->of[e->Iex.RdTmp.tmp].from_sp;
}

static Bool computes_sp(const struct lt_provenances *o, const IRExpr *e)
{
    if (e->tag == Iex_Get)
        return e->Iex.Get.offset == o->sp_offset;
    if (e->tag == Iex_RdTmp)
        return lt_is_from_sp(o, e);
    if (e->tag != Iex_Binop)
        return False;
    IROp op = e->Iex.Binop.op;
    if (op != Iop_Add64 && op != Iop_Sub64 && op != Iop_And64)
        return False;
    return lt_is_from_sp(o, e->Iex.Binop.arg1) && e->Iex.Binop.arg2->tag == Iex_Const;
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

void lt_provenance_assign(struct lt_provenances *o, IRTemp tmp, const IRExpr *data)
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

struct lt_address lt_address_of(const struct lt_provenances *o, IRExpr *atom)
{
    if (atom->tag == Iex_Const)
        return (struct lt_address){atom, NULL, (Long)atom->Iex.Const.con->Ico.U64, 0};
    const struct lt_provenance *of = &o->of[atom->Iex.RdTmp.tmp];
    return (struct lt_address){atom, IRExpr_RdTmp(of->root), of->distance, of->stepped};
}
