/* machine_code.c - discard only the translations of machine code that LuaJIT has changed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * For each trace that it adds, and for each exit that it links to another trace, LuaJIT makes its whole area
 * of machine code writable and not executable, and afterwards executable again. Each time Valgrind discards
 * all translations of the area. In a program with many traces, three quarters of all translations are of code
 * that has not changed. Therefore the area is copied here when it becomes writable. When it becomes
 * executable again, the translations of those parts that differ are discarded, and no others.
 *
 * In between, code of the area could still run, which without Valgrind would be a fault. LuaJIT runs no trace
 * meanwhile. This is not known of other programs, so only the system calls of LuaJIT's own code are treated
 * like this. An exception is a program that LuaJIT is linked into and that provokes such faults in code of
 * its own.
 *
 * The Lua lines of a trace stay right although its translations are kept: LuaJIT frees machine code only by
 * unmapping a whole area, which does discard translations. Within an area no trace ever replaces another.
 *
 * Valgrind itself calls VG_(discard_translations); the linker replaces it by the function here (--wrap).
 */
#include "ljtrace/valgrind/luajit/machine_code.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/valgrind/base/ir.h"
#include "ljtrace/valgrind/base/self_modifying.h"
#include "ljtrace/valgrind/luajit/images.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

#if LT_CAN_DISCARD

/* NEAR: changes with at most this many equal words between them are discarded together. */
enum { MAX_OPEN = 8, LARGEST = 1 << 22, NEAR = 8 };

/* The areas that are writable, and a copy of each as it was before. */
static struct area {
    Addr from, to; /* 0, 0 = free */
    UWord *was;
} s_open[MAX_OPEN];

/* The arguments of the current mprotect; to 0 = none. */
static struct asked {
    Addr from, to;
    UWord prot;
    Bool by_luajit;
} s_asked;

void __real_vgPlain_discard_translations(Addr from, ULong size, const HChar *who);
void __wrap_vgPlain_discard_translations(Addr from, ULong size, const HChar *who);

static void discard(Addr from, Addr to)
{
    __real_vgPlain_discard_translations(from, to - from, "ljtrace");
}

static void area_forget(struct area *area)
{
    VG_(free)(area->was);
    *area = (struct area){0, 0, NULL};
}

/* Give up areas that overlap the range but are not equal to it. */
static void forget_others(Addr from, Addr to)
{
    for (struct area *a = s_open; a < s_open + MAX_OPEN; a++)
        if (a->from < to && a->to > from && (a->from != from || a->to != to)) {
            discard(a->from, a->to);
            area_forget(a);
        }
}

static struct area *area_find(Addr from, Addr to)
{
    for (struct area *a = s_open; a < s_open + MAX_OPEN; a++)
        if (a->from == from && a->to == to)
            return a;
    return NULL;
}

/* Copy an area that becomes writable. Returns false if that is not possible. An area that is made writable
 * twice was copied the first time. */
static Bool open_area(Addr from, Addr to)
{
    struct area *a = area_find(from, to);
    if (a)
        return True;
    a = area_find(0, 0);
    if (!a || to - from > LARGEST || !program_readable(from, to - from))
        return False;
    *a = (struct area){from, to, VG_(malloc)("lt.mcode", to - from)};
    VG_(memcpy)(a->was, (void *)from, to - from);
    return True;
}

/* Discard the translations of all changes, those that are close together at once. */
static void compare(const struct area *a)
{
    const UWord *is = (const UWord *)a->from;
    UWord n = (a->to - a->from) / sizeof *is;
    for (UWord i = 0, end; i < n; i = end + 1) {
        end = i;
        for (UWord j = i; j < n && j <= end + NEAR && is[i] != a->was[i]; j++)
            if (is[j] != a->was[j])
                end = j;
        if (is[i] != a->was[i])
            discard((Addr)(is + i), (Addr)(is + end + 1));
    }
}

/* Is this the discarding that belongs to LuaJIT's mprotect, and can it be left to close_area? */
static Bool may_stay(Addr from, Addr to)
{
    const struct asked *q = &s_asked;
    return q->by_luajit && q->from == from && q->to == to && (q->prot & VKI_PROT_READ) &&
           !(q->prot & VKI_PROT_EXEC) && lt_smc_trusts(from, to) && open_area(from, to);
}

void __wrap_vgPlain_discard_translations(Addr from, ULong size, const HChar *who)
{
    Addr to = from + size;
    forget_others(from, to);
    if (may_stay(from, to))
        return;
    struct area *a = area_find(from, to);
    if (a)
        area_forget(a);
    __real_vgPlain_discard_translations(from, size, who);
}

/* Was mprotect called by LuaJIT? libc's mprotect saves nothing on the stack, so the top word is the return
 * address. */
static Bool is_by_luajit(ThreadId tid)
{
    return lt_image_of(program_number(VG_(get_SP)(tid), sizeof(Addr))) > 0;
}

void lt_mcode_before(ThreadId tid, UInt number, const UWord *args)
{
    if (number == __NR_mprotect || number == __NR_pkey_mprotect)
        s_asked = (struct asked){args[0], VG_PGROUNDUP(args[0] + args[1]), args[2], is_by_luajit(tid)};
}

/* An area has become executable again. Valgrind discards nothing in this case. */
static void close_area(struct area *a)
{
    if (!(s_asked.prot & VKI_PROT_WRITE) && lt_smc_trusts(a->from, a->to))
        compare(a);
    else
        discard(a->from, a->to);
    area_forget(a);
}

void lt_mcode_after(Long result)
{
    if (s_asked.to && result >= 0 && (s_asked.prot & VKI_PROT_EXEC)) {
        forget_others(s_asked.from, s_asked.to);
        struct area *a = area_find(s_asked.from, s_asked.to);
        if (a)
            close_area(a);
    }
    s_asked = (struct asked){0, 0, 0, False};
}

#else

void lt_mcode_before(ThreadId tid, UInt number, const UWord *args)
{
}

void lt_mcode_after(Long result)
{
}

#endif

/* -- calls of C functions -- */

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
