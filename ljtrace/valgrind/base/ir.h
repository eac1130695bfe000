/* ir.h - helpers to build VEX's intermediate representation (IR), of which generated code is made.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_BASE_IR_H
#define LJTRACE_VALGRIND_BASE_IR_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* A 64-bit constant. */
static inline IRExpr *lt_ir_word(ULong value)
{
    return IRExpr_Const(IRConst_U64(value));
}

/* Add a new temporary with the value of `e`. */
static inline IRExpr *lt_ir_assign(IRSB *out, IRType type, IRExpr *e)
{
    IRTemp t = newIRTemp(out->tyenv, type);
    addStmtToIRSB(out, IRStmt_WrTmp(t, e));
    return IRExpr_RdTmp(t);
}

/* Add a load of the 64-bit word at `from`, an address of the tool's own. */
static inline IRExpr *lt_ir_load(IRSB *out, const void *from)
{
    return lt_ir_assign(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, lt_ir_word((Addr)from)));
}

#endif
