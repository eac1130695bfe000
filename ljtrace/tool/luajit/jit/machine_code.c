/* machine_code.c - see machine_code.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * LuaJIT makes the whole area of its machine code writable, and no longer executable, for each trace that it
 * adds and each exit that it leads to another trace, and executable again behind that. Valgrind discards all
 * translations of the area each time: three quarters of all that a program with many traces translates are
 * made again of bytes that have not changed. Here the area is copied when it becomes writable; when it is
 * executable again, what differs is discarded, and nothing else.
 *
 * What is not discarded in between could still run, where by itself it would fault. LuaJIT runs no trace
 * then; of other programs nobody knows, so only what its code asks for is treated so. A program that has
 * LuaJIT linked into it, and that means to fault in code of its own, is not told apart.
 *
 * Why are a trace's lines right if its translations stay? Machine code is given back as a whole, by munmap,
 * and that discards: in an area that stays, no trace comes to lie where another one was.
 *
 * Valgrind calls VG_(discard_translations) itself; the linker puts the function here in its place (--wrap).
 */
#include "ljtrace/tool/luajit/jit/machine_code.h"
#include "ljtrace/tool/base/guest_memory.h"
#include "ljtrace/tool/base/self_modifying.h"
#include "ljtrace/tool/luajit/core/images.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

#if LT_CAN_DISCARD

enum { MAX_OPEN = 8, LARGEST = 1 << 22, NEAR = 8 /* words that are the same between two changes */ };

/* Areas that are writable, and what was in them. */
static struct area {
    Addr from, to; /* 0, 0 = free */
    UWord *was;
} s_open[MAX_OPEN];

/* What mprotect is asked for now; to 0 = nothing. */
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

static void forget(struct area *area)
{
    VG_(free)(area->was);
    *area = (struct area){0, 0, NULL};
}

/* Areas that reach into the range, but are not the range, are not waited for any longer. */
static void forget_others(Addr from, Addr to)
{
    for (struct area *a = s_open; a < s_open + MAX_OPEN; a++)
        if (a->from < to && a->to > from && (a->from != from || a->to != to)) {
            discard(a->from, a->to);
            forget(a);
        }
}

static struct area *find(Addr from, Addr to)
{
    for (struct area *a = s_open; a < s_open + MAX_OPEN; a++)
        if (a->from == from && a->to == to)
            return a;
    return NULL;
}

/* Copy what is there, if there is room; what has become writable once more was copied then. */
static Bool open_area(Addr from, Addr to)
{
    struct area *a = find(from, to);
    if (a)
        return True;
    a = find(0, 0);
    if (!a || to - from > LARGEST || !lt_readable(from, to - from))
        return False;
    *a = (struct area){from, to, VG_(malloc)("lt.mcode", to - from)};
    VG_(memcpy)(a->was, (void *)from, to - from);
    return True;
}

/* Discard what has changed, neighbouring changes at once. */
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

/* Is this the discarding for what LuaJIT has asked for, and is what would be discarded known? */
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
    struct area *a = find(from, to);
    if (a)
        forget(a);
    __real_vgPlain_discard_translations(from, size, who);
}

/* libc's mprotect keeps nothing on the stack: what called it is there. */
static Bool is_by_luajit(ThreadId tid)
{
    return lt_image_of(lt_peek_number(VG_(get_SP)(tid), sizeof(Addr))) > 0;
}

void lt_mcode_before(ThreadId tid, UInt number, const UWord *args)
{
    if (number == __NR_mprotect || number == __NR_pkey_mprotect)
        s_asked = (struct asked){args[0], VG_PGROUNDUP(args[0] + args[1]), args[2], is_by_luajit(tid)};
}

/* Valgrind discards nothing of what becomes executable. */
static void close_area(struct area *a)
{
    if (!(s_asked.prot & VKI_PROT_WRITE) && lt_smc_trusts(a->from, a->to))
        compare(a);
    else
        discard(a->from, a->to);
    forget(a);
}

void lt_mcode_after(Long result)
{
    if (s_asked.to && result >= 0 && (s_asked.prot & VKI_PROT_EXEC)) {
        forget_others(s_asked.from, s_asked.to);
        struct area *a = find(s_asked.from, s_asked.to);
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
