/* ir.h - small pieces of VEX's intermediate representation, as all generated code is made of. (host side,
 * no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_BASE_IR_H
#define LJTRACE_TOOL_BASE_IR_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

static inline IRExpr *lt_ir_word(ULong value)
{
    return IRExpr_Const(IRConst_U64(value));
}

/* A new temporary with the value of `e`. */
static inline IRExpr *lt_ir_assign(IRSB *out, IRType type, IRExpr *e)
{
    IRTemp t = newIRTemp(out->tyenv, type);
    addStmtToIRSB(out, IRStmt_WrTmp(t, e));
    return IRExpr_RdTmp(t);
}

/* What the word at `from`, an address of the tool's own, holds when the code runs. */
static inline IRExpr *lt_ir_load(IRSB *out, const void *from)
{
    return lt_ir_assign(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, lt_ir_word((Addr)from)));
}

#endif
