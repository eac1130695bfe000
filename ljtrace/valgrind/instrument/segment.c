/* segment.c - generate the code that records a segment. (see segment.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/instrument/segment.h"
#include "ljtrace/valgrind/base/ir.h"
#include "ljtrace/valgrind/ring/block_filter.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "memtrace/stream.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_machine.h"
#include "pub_tool_tooliface.h"

static UInt s_segments; /* number of segments defined so far in this process */

static IRExpr *plus(IRSB *out, IRExpr *e, ULong n)
{
    return lt_ir_assign(out, Ity_I64, IRExpr_Binop(Iop_Add64, e, lt_ir_word(n)));
}

static void empty(struct lt_segment *s)
{
    s->cursor = s->maybe = IRTemp_INVALID;
    s->count = s->defined = s->words = s->moved = s->instructions = s->changed = s->directed = 0;
}

void lt_segment_begin(struct lt_segment *s, IRSB *out, enum lt_way way)
{
    s->out = out;
    s->way = way;
    s->written = s->counted = 0;
    s->counter = IRTemp_INVALID;
    s->check = -1;
    s->down = IRTemp_INVALID;
    empty(s);
}

/* Add code that checks whether a word may be in a block, in addition to the words before. */
static void look_up(struct lt_segment *s, IRExpr *value)
{
    IRExpr *found = lt_filter_lookup(s->out, value);
    if (s->maybe != IRTemp_INVALID)
        found = lt_ir_assign(s->out, Ity_I8, IRExpr_Binop(Iop_Or8, found, IRExpr_RdTmp(s->maybe)));
    s->maybe = found->Iex.RdTmp.tmp;
}

static void store_word(struct lt_segment *s, IRExpr *value)
{
    if (s->cursor == IRTemp_INVALID)
        s->cursor = lt_ir_load(s->out, &lt_ring->cursor)->Iex.RdTmp.tmp;
    IRExpr *at = plus(s->out, IRExpr_RdTmp(s->cursor), mt_stream_bytes(s->words));
    addStmtToIRSB(s->out, IRStmt_Store(Iend_LE, at, value));
}

/* Add a word. near: an address that is within reach of all accesses to the word. */
static UInt add_word(struct lt_segment *s, const struct lt_word *word, IRExpr *near)
{
    if (s->way != LT_CALLED)
        store_word(s, word->value);
    if (s->way != LT_ALWAYS)
        look_up(s, near);
    s->word[s->words] = *word;
    return s->words++;
}

/* The word of an access with a condition. If the access does not happen, the word is address 0, which is in
 * no block. Such a word is not shared. */
static UInt guarded_word(struct lt_segment *s, IRExpr *addr, IRExpr *guard)
{
    IRExpr *value = lt_ir_assign(s->out, Ity_I64, IRExpr_ITE(guard, addr, lt_ir_word(0)));
    return add_word(s, &(struct lt_word){.value = value, .root = guard}, value);
}

static Bool is_near(Long distance)
{
    return distance >= -LT_WORD_REACH && distance <= LT_WORD_REACH;
}

/* Is the address near the word's first access, in both directions? */
static Bool near_first(const struct lt_word *w, const struct lt_address *addr)
{
    Long distance = addr->distance - w->first;
    return is_near(distance) && is_near(distance - 2 * ((Long)addr->stepped - w->stepped));
}

static Bool same_root(const IRExpr *a, const IRExpr *b)
{
    return a && b ? eqIRAtom(a, b) : a == b;
}

/* Index of the word that an address can share; s->words if there is none within reach. */
static UInt shared_word(const struct lt_segment *s, const struct lt_address *addr)
{
    UInt i = 0;
    while (i < s->words && !(same_root(s->word[i].root, addr->root) && near_first(&s->word[i], addr)))
        i++;
    return i;
}

static UInt word_of(struct lt_segment *s, const struct lt_address *addr)
{
    UInt shared = shared_word(s, addr);
    if (shared < s->words)
        return shared;
    IRExpr *value = addr->root ? addr->root : addr->atom;
    return add_word(s, &(struct lt_word){value, addr->root, addr->distance, addr->stepped}, addr->atom);
}

/* Is there room for one more access? */
static Bool holds(const struct lt_segment *s, const struct lt_address *addr, const IRExpr *guard)
{
    UInt most = s->way == LT_CALLED ? LT_CALLED_WORDS : LT_SEGMENT_WORDS;
    return s->count < LT_SEGMENT_ACCESSES && (s->words < most || (!guard && shared_word(s, addr) < s->words));
}

static Bool completes_modify(const struct lt_segment *s, const struct lt_access *a)
{
    if (s->count == s->defined || a->kind == RAW_LOAD)
        return False;
    const struct lt_access *last = &s->access[s->count - 1];
    return last->kind == RAW_LOAD && last->sure && last->ip == a->ip && last->size == a->size &&
           last->word == a->word && last->distance == a->distance && last->stepped == a->stepped;
}

void lt_segment_access(struct lt_segment *s, Addr ip, enum raw_access kind, UInt size,
                       const struct lt_address *addr, IRExpr *guard)
{
    if (!holds(s, addr, guard))
        lt_segment_end(s);
    s->changed = True;
    struct lt_access a = {.ip = ip, .size = size, .kind = kind, .sure = !guard};
    a.word = guard ? guarded_word(s, addr->atom, guard) : word_of(s, addr);
    if (!guard) {
        a.distance = (Int)(addr->root ? addr->distance : addr->distance - s->word[a.word].first);
        a.stepped = addr->stepped;
        s->directed |= a.stepped != 0;
    }
    if (!guard && completes_modify(s, &a))
        s->access[s->count - 1].kind = RAW_MODIFY;
    else
        s->access[s->count++] = a;
}

void lt_segment_direction(struct lt_segment *s, IRTemp flag)
{
    IRExpr *sign = IRExpr_Binop(Iop_Shr64, IRExpr_RdTmp(flag), IRExpr_Const(IRConst_U8(63)));
    if (s->down == IRTemp_INVALID)
        s->down = lt_ir_assign(s->out, Ity_I64, sign)->Iex.RdTmp.tmp;
}

/* Write a definition of the segment into the ring: of all accesses or, with `from`, of those added since the
 * last definition. Returns its number. */
static UInt write_definition(const struct lt_segment *s, UInt from, Bool down)
{
    struct raw_segment_access accesses[LT_SEGMENT_ACCESSES];
    UInt n = 0, instructions = s->way == LT_ALWAYS ? s->instructions : 0;
    for (UInt i = from; i < s->count; i++) {
        const struct lt_access *a = &s->access[i];
        Int distance = a->distance - (down ? 2 * a->stepped : 0);
        lt_name_frame(a->ip);
        accesses[n++] = (struct raw_segment_access){a->ip, a->size, a->kind, distance, a->word};
    }
    HOST_PUT(define, .appended = from > 0, .instructions = instructions, .words = s->words,
             .accesses = accesses, .accesses_count = n);
    lt_rollback_segment(s->words, instructions);
    tl_assert(s_segments < RAW_RARE);
    return s_segments++;
}

/* The number of the segment. A segment that depends on the direction has two; the one for down follows the
 * one for up. */
static IRExpr *define(struct lt_segment *s)
{
    UInt up = write_definition(s, s->directed ? 0 : s->defined, False);
    s->defined = s->count;
    if (!s->directed)
        return lt_ir_word(up);
    write_definition(s, 0, True);
    return plus(s->out, IRExpr_RdTmp(s->down), up);
}

/* Add code that counts the instructions: the collector does not count those of segments that may be filtered
 * out. Nothing else changes the count while a superblock runs, so it is loaded only once. */
static void emit_count(struct lt_segment *s)
{
    if (s->counter == IRTemp_INVALID)
        s->counter = lt_ir_load(s->out, &lt_ring->instructions)->Iex.RdTmp.tmp;
    s->counted += s->instructions;
    IRExpr *sum = plus(s->out, IRExpr_RdTmp(s->counter), s->counted);
    addStmtToIRSB(s->out, IRStmt_Store(Iend_LE, lt_ir_word((Addr)&lt_ring->instructions), sum));
    s->instructions = 0;
}

/* The condition that some word may be in a block. */
static IRExpr *maybe(struct lt_segment *s)
{
    IRExpr *zero = IRExpr_Const(IRConst_U8(0));
    return lt_ir_assign(s->out, Ity_I1, IRExpr_Binop(Iop_CmpNE8, IRExpr_RdTmp(s->maybe), zero));
}

/* Advance the cursor past the segment's words. */
static void emit_cursor(struct lt_segment *s)
{
    IRExpr *start = IRExpr_RdTmp(s->cursor), *next = plus(s->out, start, mt_stream_bytes(s->words));
    if (s->way == LT_FILTERED)
        next = lt_ir_assign(s->out, Ity_I64, IRExpr_ITE(maybe(s), next, start));
    addStmtToIRSB(s->out, IRStmt_Store(Iend_LE, lt_ir_word((Addr)&lt_ring->cursor), next));
    s->moved = s->words;
}

/* The lower 32 bits of an expression. */
static IRExpr *half(IRSB *out, IRExpr *e)
{
    if (e->tag == Iex_Const)
        return IRExpr_Const(IRConst_U32((UInt)e->Iex.Const.con->Ico.U64));
    return lt_ir_assign(out, Ity_I32, IRExpr_Unop(Iop_64to32, e));
}

/* Write the segment so far into the ring, over the shorter part that may be there. */
static void emit_segment(struct lt_segment *s)
{
    addStmtToIRSB(s->out, IRStmt_Store(Iend_LE, IRExpr_RdTmp(s->cursor), half(s->out, define(s))));
    if (s->words > s->moved)
        emit_cursor(s);
}

static void call_1(ULong number, uint64_t a)
{
    lt_ring_put_segment((UInt)number, (uint64_t[]){a}, 1);
}

static void call_2(ULong number, uint64_t a, uint64_t b)
{
    lt_ring_put_segment((UInt)number, (uint64_t[]){a, b}, 2);
}

static void call_3(ULong number, uint64_t a, uint64_t b, uint64_t c)
{
    lt_ring_put_segment((UInt)number, (uint64_t[]){a, b, c}, 3);
}

static void call_4(ULong number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    lt_ring_put_segment((UInt)number, (uint64_t[]){a, b, c, d}, 4);
}

/* The arguments of the call: the segment's number and its words. */
static IRExpr **arguments(struct lt_segment *s)
{
    IRExpr *number = define(s);
    switch (s->words) {
    case 1:
        return mkIRExprVec_2(number, s->word[0].value);
    case 2:
        return mkIRExprVec_3(number, s->word[0].value, s->word[1].value);
    case 3:
        return mkIRExprVec_4(number, s->word[0].value, s->word[1].value, s->word[2].value);
    default:
        tl_assert(s->words == LT_CALLED_WORDS);
        return mkIRExprVec_5(number, s->word[0].value, s->word[1].value, s->word[2].value, s->word[3].value);
    }
}

/* Add the call that writes the segment if one of its words may be in a block. What follows is another
 * segment. */
static void emit_call(struct lt_segment *s)
{
    static void *const function[] = {NULL, call_1, call_2, call_3, call_4};
    IRDirty *call =
        unsafeIRDirty_0_N(0, "lt_segment_call", VG_(fnptr_to_fnentry)(function[s->words]), arguments(s));
    call->guard = maybe(s);
    addStmtToIRSB(s->out, IRStmt_Dirty(call));
    s->count = s->defined = s->words = s->directed = 0;
    s->maybe = IRTemp_INVALID;
}

/* The call comes before the count, because the other records that it writes into the ring belong before the
 * superblock. */
static void exit_called(struct lt_segment *s)
{
    if (s->count)
        emit_call(s);
    emit_count(s);
}

void lt_segment_exit(struct lt_segment *s)
{
    if (s->changed && s->way == LT_CALLED)
        exit_called(s);
    else if (s->changed) {
        if (s->count == 0 || s->way == LT_FILTERED)
            emit_count(s);
        if (s->way == LT_FILTERED ? s->count > s->defined : s->count > 0)
            emit_segment(s);
    }
    s->changed = False;
}

void lt_segment_end(struct lt_segment *s)
{
    lt_segment_exit(s);
    s->written += s->words ? mt_stream_bytes(s->words) : 0;
    tl_assert(s->written < RING_MARGIN_BYTES);
    empty(s);
}

Bool lt_segment_split(struct lt_segment *s, Addr ip)
{
    if (s->count && s->access[s->count - 1].ip == ip)
        return False;
    if (s->count || s->instructions > 1) {
        s->instructions--;
        lt_segment_end(s);
        s->instructions = 1;
        s->changed = True;
    }
    return True;
}

void lt_segment_other(struct lt_segment *s, UInt bytes)
{
    s->written += bytes;
}

void lt_segment_instruction(struct lt_segment *s)
{
    if (s->instructions == LT_SEGMENT_INSTRUCTIONS)
        lt_segment_end(s);
    s->instructions++;
    s->changed = True;
}

void lt_segment_check_room(struct lt_segment *s)
{
    IRExpr *cursor = lt_ir_load(s->out, &lt_ring->cursor);
    IRExpr *limit = lt_ir_load(s->out, &lt_ring->limit);
    IRExpr *full = lt_ir_assign(s->out, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, limit, cursor));
    IRDirty *call =
        unsafeIRDirty_0_N(0, "lt_ring_make_room", VG_(fnptr_to_fnentry)(lt_ring_make_room), mkIRExprVec_0());
    call->guard = full;
    s->check = s->out->stmts_used;
    addStmtToIRSB(s->out, IRStmt_Dirty(call));
}

/* A superblock of LuaJIT keeps its check even if it writes nothing: the function that is called back there
 * needs to know which superblock follows LuaJIT's code (ljtrace/valgrind/luajit/vmstate.c). */
void lt_segment_finish(struct lt_segment *s)
{
    lt_segment_end(s);
    if (s->check >= 0 && s->way != LT_ALWAYS && s->written == 0)
        s->out->stmts[s->check] = IRStmt_NoOp();
}
