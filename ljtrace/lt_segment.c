/* lt_segment.c - the code that records a segment. (host side, no libc; see lt_segment.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "lt_segment.h"
#include "lt_frames.h"
#include "lt_ring.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_machine.h"
#include "pub_tool_tooliface.h"

static UInt s_segments; /* defined so far, in this process */

static IRExpr *word(ULong value)
{
    return IRExpr_Const(IRConst_U64(value));
}

static IRExpr *assign(IRSB *out, IRType type, IRExpr *e)
{
    IRTemp t = newIRTemp(out->tyenv, type);
    addStmtToIRSB(out, IRStmt_WrTmp(t, e));
    return IRExpr_RdTmp(t);
}

static IRExpr *load_word(IRSB *out, const void *from)
{
    return assign(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, word((Addr)from)));
}

static IRExpr *plus(IRSB *out, IRExpr *e, ULong n)
{
    return assign(out, Ity_I64, IRExpr_Binop(Iop_Add64, e, word(n)));
}

void lt_segment_begin(struct lt_segment *s, IRSB *out)
{
    s->out = out;
    s->cursor = IRTemp_INVALID;
    s->count = s->instructions = s->words = 0;
}

/* Of an access that does not happen, the ring gets address 0, which is no block's. */
static IRExpr *guarded(IRSB *out, IRExpr *addr, IRExpr *guard)
{
    return guard ? assign(out, Ity_I64, IRExpr_ITE(guard, addr, word(0))) : addr;
}

static Bool completes_modify(const struct lt_segment *s, Addr ip, enum raw_access kind, UInt size,
                             IRExpr *addr)
{
    if (s->count == 0 || kind == RAW_LOAD)
        return False;
    const struct lt_access *last = &s->access[s->count - 1];
    return last->kind == RAW_LOAD && last->ip == ip && last->size == size && last->addr &&
           eqIRAtom(last->addr, addr);
}

static void store_address(struct lt_segment *s, IRExpr *addr)
{
    if (s->cursor == IRTemp_INVALID)
        s->cursor = load_word(s->out, &lt_ring->cursor)->Iex.RdTmp.tmp;
    IRExpr *at = plus(s->out, IRExpr_RdTmp(s->cursor), (s->count + 1) * sizeof(ULong));
    addStmtToIRSB(s->out, IRStmt_Store(Iend_LE, at, addr));
}

void lt_segment_access(struct lt_segment *s, Addr ip, enum raw_access kind, UInt size, IRExpr *addr,
                       IRExpr *guard)
{
    if (!guard && completes_modify(s, ip, kind, size, addr)) {
        s->access[s->count - 1].kind = RAW_MODIFY;
        return;
    }
    if (s->count == LT_SEGMENT_ACCESSES)
        lt_segment_end(s);
    store_address(s, guarded(s->out, addr, guard));
    s->access[s->count++] = (struct lt_access){guard ? NULL : addr, ip, size, kind};
}

/* Tell the collector what the segment is. */
static UInt define(const struct lt_segment *s)
{
    uint64_t words[1 + 2 * LT_SEGMENT_ACCESSES];
    words[0] = s->instructions;
    for (UInt i = 0; i < s->count; i++) {
        lt_name_frame(s->access[i].ip);
        words[1 + 2 * i] = s->access[i].ip;
        words[2 + 2 * i] = raw_pair(s->access[i].size, s->access[i].kind);
    }
    lt_ring_put(RAW_DEFINE, 0, words, 1 + 2 * s->count, NULL, 0);
    return s_segments++;
}

static void emit_segment(struct lt_segment *s)
{
    IRExpr *start = IRExpr_RdTmp(s->cursor);
    addStmtToIRSB(s->out, IRStmt_Store(Iend_LE, start, word(raw_header(RAW_SEGMENT, 0, define(s)))));
    IRExpr *next = plus(s->out, start, (s->count + 1) * sizeof(ULong));
    addStmtToIRSB(s->out, IRStmt_Store(Iend_LE, word((Addr)&lt_ring->cursor), next));
    s->words += s->count + 1;
    tl_assert(s->words * sizeof(ULong) < RING_MARGIN_BYTES);
}

/* Code without accesses only counts its instructions. */
static void emit_count(struct lt_segment *s)
{
    IRExpr *sum = plus(s->out, load_word(s->out, &lt_ring->instructions), s->instructions);
    addStmtToIRSB(s->out, IRStmt_Store(Iend_LE, word((Addr)&lt_ring->instructions), sum));
}

void lt_segment_end(struct lt_segment *s)
{
    if (s->count)
        emit_segment(s);
    else if (s->instructions)
        emit_count(s);
    s->cursor = IRTemp_INVALID;
    s->count = s->instructions = 0;
}

void lt_segment_check_room(IRSB *out)
{
    IRExpr *cursor = load_word(out, &lt_ring->cursor);
    IRExpr *limit = load_word(out, &lt_ring->limit);
    IRExpr *full = assign(out, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, limit, cursor));
    IRDirty *call =
        unsafeIRDirty_0_N(0, "lt_ring_flush", VG_(fnptr_to_fnentry)(lt_ring_flush), mkIRExprVec_0());
    call->guard = full;
    addStmtToIRSB(out, IRStmt_Dirty(call));
}
