/* block_filter.c - the table of the parts of the address space that may contain blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/ring/block_filter.h"
#include "ljtrace/valgrind/base/ir.h"
#include "ljtrace/valgrind/base/self_modifying.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"

#define GRANULE_BITS 16
#define GRANULES 0x10000

static UChar s_table[GRANULES];
static Bool s_static_blocks; /* a block was met in the data of an object file */

/* The address that is looked up may be LT_WORD_REACH away from that of the access. This is less than a
 * granule, so it is enough to mark the neighbours of a block's granules as well. */
void lt_filter_add(Addr addr, SizeT size)
{
    tl_assert(LT_WORD_REACH < 1 << GRANULE_BITS);
    Addr first = (addr >> GRANULE_BITS) - 1, last = ((addr + (size ? size - 1 : 0)) >> GRANULE_BITS) + 1;
    if (last - first >= GRANULES)
        last = first + GRANULES - 1;
    for (Addr g = first; g <= last; g++)
        s_table[g & (GRANULES - 1)] = 1;
}

Bool lt_filter_holds(Addr addr)
{
    return s_table[addr >> GRANULE_BITS & (GRANULES - 1)];
}

IRExpr *lt_filter_lookup(IRSB *out, IRExpr *addr)
{
    IRExpr *g =
        lt_ir_assign(out, Ity_I64, IRExpr_Binop(Iop_Shr64, addr, IRExpr_Const(IRConst_U8(GRANULE_BITS))));
    g = lt_ir_assign(out, Ity_I64, IRExpr_Binop(Iop_And64, g, IRExpr_Const(IRConst_U64(GRANULES - 1))));
    g = lt_ir_assign(out, Ity_I64, IRExpr_Binop(Iop_Add64, g, IRExpr_Const(IRConst_U64((Addr)s_table))));
    return lt_ir_assign(out, Ity_I8, IRExpr_Load(Iend_LE, Ity_I8, g));
}

static Bool is_in_object(Addr addr)
{
    return VG_(DebugInfo_sect_kind)(NULL, addr) != Vg_SectUnknown;
}

void lt_filter_add_own(Addr addr)
{
    if (s_static_blocks || !is_in_object(addr))
        return;
    s_static_blocks = True;
    lt_smc_translate_again();
}

Bool lt_filter_is_static(Addr addr)
{
    return !s_static_blocks && is_in_object(addr);
}
