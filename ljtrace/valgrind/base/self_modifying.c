/* self_modifying.c - omit Valgrind's checks for modified code where they are not needed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * By default Valgrind hashes all code outside of files each time before it runs (--smc-check=all-non-file).
 * In LuaJIT's traces this takes up to half of the time. But Valgrind also discards translations whenever
 * mprotect, mmap, munmap or mremap change the mapping of their code. So if code is in a mapping that is not
 * writable when it is translated, it can only be modified unnoticed in three ways:
 *
 * - Through another mapping of the same memory. Shared anonymous mappings are remembered here; System V's are
 * not trusted; those of files are not checked by Valgrind's default either.
 *
 * - Through /proc/PID/mem, which ignores protection. When the program opens such a file for writing, nothing
 * is trusted any more, and the code trusted so far is translated again.
 *
 * - By madvise, which can empty private memory. The translations of such a range are discarded.
 *
 * The check is a few statements before the first instruction of a superblock, which the instrumenter omits.
 * Code in memory that is writable and executable is always checked. If --smc-check is given, no check is
 * omitted.
 */
#include "ljtrace/valgrind/base/self_modifying.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/options.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { MAX_SHARED = 64, LONGEST_PATH = 64, DONTNEED = 4, FREE_LAZILY = 8, REMOVE = 9, OPENAT2 = 437 };

/* configure looks for this function. Without it all checks remain. */
#if !LT_CAN_DISCARD
static void VG_(discard_translations)(Addr start, ULong range, const HChar *who)
{
}
#endif

static Bool s_trusting; /* False: all checks remain */

/* A shared anonymous mapping. */
static struct range {
    Addr from, to;
} s_shared[MAX_SHARED];
static UInt s_count;

void lt_smc_init(void)
{
    s_trusting = LT_CAN_DISCARD && !lt_option_given("--smc-check");
}

static Bool is_shared(Addr from, Addr to)
{
    for (UInt i = 0; i < s_count; i++)
        if (from < s_shared[i].to && to > s_shared[i].from)
            return True;
    return False;
}

Bool lt_smc_is_sealed(const VexGuestExtents *extents)
{
    const NSegment *segment = s_trusting ? VG_(am_find_nsegment)(extents->base[0]) : NULL;
    if (!segment || segment->kind != SkAnonC || segment->hasW)
        return False;
    for (UShort i = 0; i < extents->n_used; i++) {
        Addr from = extents->base[i], to = from + extents->len[i];
        if (from < segment->start || to - 1 > segment->end || is_shared(from, to))
            return False;
    }
    return True;
}

Bool lt_smc_trusts(Addr from, Addr to)
{
    const NSegment *segment = s_trusting ? VG_(am_find_nsegment)(from) : NULL;
    return segment && segment->kind == SkAnonC && to - 1 <= segment->end && !is_shared(from, to);
}

Bool lt_smc_is_check(const IRStmt *st)
{
    if (st->tag == Ist_Put)
        return st->Ist.Put.offset == offsetof(VexGuestAMD64State, guest_CMSTART) ||
               st->Ist.Put.offset == offsetof(VexGuestAMD64State, guest_CMLEN);
    return st->tag == Ist_Exit && st->Ist.Exit.jk == Ijk_InvalICache;
}

void lt_smc_translate_again(void)
{
    VG_(discard_translations)((Addr)0x1000, ~(ULong)0xfff, "ljtrace");
}

static void trust_nothing(void)
{
    if (s_trusting)
        lt_smc_translate_again();
    s_trusting = False;
}

static void remember_shared(Addr from, SizeT size)
{
    if (s_count == MAX_SHARED)
        trust_nothing();
    else
        s_shared[s_count++] = (struct range){from, from + size};
}

/* Is this the path of a memory file in /proc? */
static Bool is_memory_file(Addr path)
{
    HChar text[LONGEST_PATH];
    SizeT n = 0;
    while (n < LONGEST_PATH && program_read(path + n, &text[n], 1) && text[n])
        n++;
    return n >= 4 && n < LONGEST_PATH && VG_(strcmp)(&text[n - 3], "mem") == 0 && text[n - 4] == '/';
}

static Bool opens_memory(UInt number, const UWord *a)
{
    if (number == __NR_open)
        return (a[1] & 3) && is_memory_file(a[0]);
    if (number == __NR_openat)
        return (a[2] & 3) && is_memory_file(a[1]);
    return number == OPENAT2 && is_memory_file(a[1]);
}

void lt_smc_before(UInt number, const UWord *a)
{
    if (s_trusting && opens_memory(number, a))
        trust_nothing();
}

static Bool empties(const UWord *a)
{
    return a[2] == DONTNEED || a[2] == FREE_LAZILY || a[2] == REMOVE;
}

static void emptied(Addr from, SizeT size)
{
    const NSegment *segment = VG_(am_find_nsegment)(from);
    if (segment && segment->hasT)
        VG_(discard_translations)(from, size, "ljtrace");
}

void lt_smc_after(UInt number, const UWord *a, Long result)
{
    if (!s_trusting || (result < 0 && result >= -4095))
        return;
    if (number == __NR_mmap && (a[3] & VKI_MAP_ANONYMOUS) && (a[3] & VKI_MAP_SHARED))
        remember_shared((Addr)result, a[1]);
    else if (number == __NR_mremap && is_shared(a[0], a[0] + a[1] + 1))
        remember_shared((Addr)result, a[2]);
    else if (number == __NR_madvise && empties(a))
        emptied(a[0], a[1]);
}
