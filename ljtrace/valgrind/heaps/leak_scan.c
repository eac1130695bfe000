/* leak_scan.c - search registers and memory for pointers to blocks when the program ends.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A pointer is an aligned word that is an address in the range of all blocks, or such an address with one of
 * the tags by which LuaJIT marks light userdata.
 */
#include "ljtrace/valgrind/heaps/leak_scan.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "pub_tool_aspacehl.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { MOST_STACKS = 4096, MOST_FRAMES = 64, RED_ZONE = 128, PAGES_AT_ONCE = 8192, WORDS_AT_ONCE = 1024 };

/* Bits of an entry of /proc/thread-self/pagemap: the page is in memory, or has been swapped out. */
#define PAGE_THERE ((ULong)1 << 63 | (ULong)1 << 62)

/* The range of a thread's stack that was last in use. */
struct stack {
    Addr from, to;
};
static struct stack *s_stacks; /* of ended threads; room for MOST_STACKS */
static UInt s_stack_count;

/* -- stacks -- */

/* Remember a stack. A stack with the same upper end is the same memory used again: it replaces the earlier
 * one. */
static void note_stack(Addr from, Addr to)
{
    UInt i = 0;
    while (i < s_stack_count && s_stacks[i].to != to)
        i++;
    if (i == MOST_STACKS)
        return;
    s_stacks[i] = (struct stack){from, to};
    s_stack_count += i == s_stack_count;
}

void lt_leak_scan_thread_ends(ThreadId tid)
{
    const Addr to = VG_(thread_get_stack_max)(tid), sp = VG_(get_SP)(tid);
    if (!s_stacks)
        s_stacks = VG_(malloc)("ljtrace.stacks", MOST_STACKS * sizeof *s_stacks);
    if (sp < to)
        note_stack(sp - RED_ZONE, to);
}

void lt_leak_scan_unmapped(Addr addr, SizeT size)
{
    for (UInt i = 0; i < s_stack_count;)
        if (s_stacks[i].to - addr < size)
            s_stacks[i] = s_stacks[--s_stack_count];
        else
            i++;
}

static Bool same_object(DiEpoch ep, Addr a, Addr b)
{
    const HChar *of_a, *of_b;
    return VG_(get_objname)(ep, a, &of_a) && VG_(get_objname)(ep, b, &of_b) && VG_(strcmp)(of_a, of_b) == 0;
}

/* If main has returned, return the stack pointer of the function that called it, else 0. main has
 * returned if only functions of the C library (exit and its callees) are on the stack, from the caller of
 * main inwards. */
static Addr caller_of_main(ThreadId tid)
{
    Addr ips[MOST_FRAMES], sps[MOST_FRAMES], fps[MOST_FRAMES];
    const DiEpoch ep = VG_(current_DiEpoch)();
    const UInt n = VG_(get_StackTrace)(tid, ips, MOST_FRAMES, sps, fps, 0);
    UInt below = 0;
    while (below < n && VG_(get_fnname_kind_from_IP)(ep, ips[below] - (below > 0)) == Vg_FnNameNormal)
        below++;
    if (below == n || VG_(get_fnname_kind_from_IP)(ep, ips[below] - (below > 0)) != Vg_FnNameBelowMain)
        return 0;
    for (UInt i = 0; i < below; i++)
        if (!same_object(ep, ips[i], ips[below]))
            return 0;
    return sps[below];
}

/* Add the stacks of the threads that have not ended. */
static void note_live_stacks(ThreadId ended_by, Addr caller)
{
    ThreadId tid;
    Addr from, to;
    if (!s_stacks)
        s_stacks = VG_(malloc)("ljtrace.stacks", MOST_STACKS * sizeof *s_stacks);
    VG_(thread_stack_reset_iter)(&tid);
    while (VG_(thread_stack_next)(&tid, &from, &to))
        note_stack(tid == ended_by && caller ? caller : from - RED_ZONE, to);
}

/* Is all of this segment stack? A stack made by the system or by a thread library has an inaccessible page
 * below it. If there is none, or if the stack is in a block, the memory below the stack may contain other
 * data. */
static Bool is_only_stack(const NSegment *seg)
{
    const NSegment *below = VG_(am_find_nsegment)(seg->start - 1);
    if (seg->isCH)
        return False;
    return below && (below->kind == SkResvn || (!below->hasR && !below->hasW));
}

/* The start of the part in use: the segment's start or, if the segment ends like a stack, the stack
 * pointer. */
static Addr used_from(const NSegment *seg)
{
    Addr from = seg->start;
    for (UInt i = 0; i < s_stack_count; i++)
        if (s_stacks[i].to - seg->start <= seg->end - seg->start && s_stacks[i].from > from &&
            is_only_stack(seg))
            from = s_stacks[i].from;
    return VG_ROUNDUP(from, sizeof(UWord));
}

/* -- pointers -- */

/* Pointers that were found, not yet sent to the collector. */
static struct {
    Addr base;
    uint64_t pointers[WORDS_AT_ONCE]; /* values of raw_pointer() */
    UInt count;
    Bool allocator;
} s_found;

static void give(void)
{
    if (s_found.count)
        HOST_PUT(pointers, .allocator = s_found.allocator, .base = s_found.base, .pointers = s_found.pointers,
                 .pointers_count = s_found.count);
    s_found.count = 0;
}

static void found(Addr at, UWord value)
{
    const Addr base = raw_pointer_base(at);
    if (s_found.count == WORDS_AT_ONCE || s_found.base != base)
        give();
    s_found.base = base;
    s_found.pointers[s_found.count++] = raw_pointer(at, value);
}

/* The address that a word points to; 0 if it is not a pointer. LuaJIT's light userdata have 47 bits with the
 * upper 16 bits set, or, in builds with 64-bit references, 39 bits with a tag above bit 46. */
static inline Addr pointer_in(UWord word)
{
    const UWord size = lt_blocks_seen.highest - lt_blocks_seen.lowest;
    Addr addr = word;
    if (word >> 48 == 0xffff)
        addr = word & (((UWord)1 << 47) - 1);
    else if (word >> 47 == 0x1fffc)
        addr = word & (((UWord)1 << 39) - 1);
    return addr - lt_blocks_seen.lowest <= size ? addr : 0;
}

static void look_through(Addr from, Addr to)
{
    for (Addr at = from; at < to; at += sizeof(UWord)) {
        const Addr addr = pointer_in(*(const UWord *)at);
        if (addr)
            found(at, addr);
    }
}

/* -- memory -- */

/* Search the pages of a range that exist. Returns false if the kernel does not report which pages exist. */
static Bool look_at_pages(Int pagemap, Addr from, Addr to)
{
    static ULong there[PAGES_AT_ONCE];
    while (from < to) {
        const Addr page = VG_PGROUNDDN(from);
        const ULong pages = (VG_PGROUNDUP(to) - page) / VKI_PAGE_SIZE;
        const ULong n = pages < PAGES_AT_ONCE ? pages : PAGES_AT_ONCE;
        const ULong bytes = n * sizeof *there, offset = page / VKI_PAGE_SIZE * sizeof *there;
        if (lt_sys(__NR_pread64, (ULong)pagemap, (Addr)there, bytes, offset, 0, 0) != (Long)bytes)
            return False;
        for (ULong i = 0; i < n; i++) {
            const Addr begin = page + i * VKI_PAGE_SIZE, end = begin + VKI_PAGE_SIZE;
            if (there[i] & PAGE_THERE)
                look_through(begin < from ? from : begin, end > to ? to : end);
        }
        from = page + n * VKI_PAGE_SIZE;
    }
    return True;
}

/* Devices are not searched: reading from one might have an effect. */
static Bool is_device(const NSegment *seg)
{
    const HChar *name = VG_(am_get_filename)(seg);
    return name && VG_(strncmp)(name, "/dev/", 5) == 0 && VG_(strncmp)(name, "/dev/shm/", 9) != 0 &&
           VG_(strncmp)(name, "/dev/zero", 9) != 0;
}

static Bool look_at_segment(Int pagemap, const NSegment *seg)
{
    if (!seg->hasR || (!seg->hasW && seg->kind != SkAnonC) || is_device(seg))
        return True;
    give();
    s_found.allocator = seg->isCH;
    return look_at_pages(pagemap, used_from(seg), seg->end + 1);
}

static Bool look_at_memory(void)
{
    /* not /proc/self, which is gone when the first thread has ended */
    const Int pagemap = VG_(fd_open)("/proc/thread-self/pagemap", VKI_O_RDONLY, 0);
    Int n = 0;
    Addr *starts = pagemap < 0 ? NULL : VG_(get_segment_starts)(SkFileC | SkAnonC | SkShmC, &n);
    Bool good = starts != NULL;
    for (Int i = 0; good && i < n; i++) {
        const NSegment *seg = VG_(am_find_nsegment)(starts[i]);
        good = !seg || look_at_segment(pagemap, seg);
    }
    if (starts)
        VG_(free)(starts);
    if (pagemap >= 0)
        VG_(close)(pagemap);
    return good;
}

/* Registers are reported as memory at addresses 0, 8, 16... */
static ThreadId s_without; /* a thread whose registers are ignored, as main has returned */
static void look_at_register(ThreadId tid, const HChar *name, UWord value)
{
    const Addr addr = tid == s_without ? 0 : pointer_in(value);
    if (addr)
        found(s_found.count * sizeof(UWord), addr);
}

void lt_leak_scan_finish(ThreadId tid)
{
    if (!lt_options.leak_scan || !lt_ring_alive() || !lt_prefault_may_call())
        return;
    const Addr caller = caller_of_main(tid);
    note_live_stacks(tid, caller);
    s_without = caller ? tid : VG_INVALID_THREADID;
    VG_(apply_to_GP_regs)(look_at_register);
    const Bool good = look_at_memory();
    give();
    if (good)
        HOST_PUT(reach);
}
