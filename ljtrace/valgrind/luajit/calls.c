/* calls.c - generate the code that records a trace's call of a C function. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/luajit/calls.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/valgrind/base/ir.h"
#include "ljtrace/valgrind/ring/ring.h"

static void store(IRSB *out, IRExpr *at, ULong value)
{
    addStmtToIRSB(out, IRStmt_Store(Iend_LE, at, lt_ir_word(value)));
}

static IRExpr *plus(IRSB *out, IRExpr *e, ULong n)
{
    return lt_ir_assign(out, Ity_I64, IRExpr_Binop(Iop_Add64, e, lt_ir_word(n)));
}

void lt_call_emit(IRSB *out, Addr ip)
{
    if (!lt_trace_name_call(ip))
        return;
    IRExpr *cursor = lt_ir_load(out, &lt_ring->cursor);
    IRExpr *next = plus(out, cursor, 2 * sizeof(ULong));
    store(out, cursor, raw_header(RAW_CALL, 0, 1));
    store(out, plus(out, cursor, sizeof(ULong)), ip);
    addStmtToIRSB(out, IRStmt_Store(Iend_LE, lt_ir_word((Addr)&lt_ring->cursor), next));
}
