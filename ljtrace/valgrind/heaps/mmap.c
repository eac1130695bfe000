/* mmap.c - the program's own mappings. (see mmap.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Only the program's system calls are seen here. The C allocator is Valgrind's and makes none of them. What
 * the allocator of a Lua state maps while it is watched is its raw material. What is mapped while the thread hides is the
 * recorder's (ljtrace/luajit/base/options.h). A mapping over a part of a
 * file's mapping (the zeroed data of a library) belongs to the file. The program break is one block, from
 * where it was first. If a block is unmapped in part, the collector cuts it.
 */
#include "ljtrace/valgrind/heaps/mmap.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/heaps/malloc.h"
#include "ljtrace/valgrind/heaps/observe.h"
#include "ljtrace/valgrind/ring/block_filter.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "memtrace/memtrace.h"
#include "pub_tool_aspacehl.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { PAGE = 4096, REMAP_DONTUNMAP = 4 };
enum { MAP_SHARED_FLAG = 0x01, MAP_FIXED_FLAG = 0x10, MAP_ANONYMOUS_FLAG = 0x20, MAP_STACK_FLAG = 0x20000 };

static Bool s_over_file; /* the mapping being made replaces a part of a file's mapping */
static Addr s_break_base, s_break;

static UWord pages(UWord size)
{
    return (size + PAGE - 1) & ~(UWord)(PAGE - 1);
}

/* The system call has just changed which memory is readable. */
static const struct lt_stack *stack_now(ThreadId tid)
{
    static struct lt_stack stack;
    program_forget();
    if (!lt_lua_inside(tid))
        return lt_own_stack(tid);
    c_stack_take(tid, &stack); /* raw material: the call of the allocator shows whose it is */
    return &stack;
}

static Addr heap(void)
{
    static Bool written;
    if (!written)
        HOST_PUT(heap, .kind = RAW_KIND_MMAP, .heap = RAW_HEAP_MMAP);
    written = True;
    return RAW_HEAP_MMAP;
}

static void unmap(ThreadId tid, Addr addr, UWord size)
{
    lt_put_unmap(heap(), addr, size, stack_now(tid));
}

static void mapped(ThreadId tid, const UWord *a, Addr addr)
{
    Bool anonymous = (a[3] & MAP_ANONYMOUS_FLAG) != 0;
    if (a[3] & MAP_FIXED_FLAG)
        unmap(tid, addr, pages(a[1]));
    if (lt_lua_inside(tid) || lt_is_hiding(tid) || (anonymous ? s_over_file : !lt_options.heap_files))
        return;
    host_block_new(addr, a[1], heap(), MT_HOW_CUSTOM, stack_now(tid));
}

/* A block has the size that was requested; its mapping extends to the end of the last page. */
static void moved(ThreadId tid, const UWord *a, Addr addr)
{
    lt_filter_add(addr, a[2]);
    if (lt_lua_inside(tid))
        unmap(tid, a[0], pages(a[1]));
    else
        lt_put_remap(heap(), a[0], a[1], addr, a[2], stack_now(tid));
}

static void break_moved(ThreadId tid, Addr now)
{
    if (!s_break_base)
        s_break_base = s_break = now;
    if (now == s_break)
        return;
    if (s_break == s_break_base)
        host_block_new(s_break_base, now - s_break_base, heap(), MT_HOW_CUSTOM, stack_now(tid));
    else if (now > s_break_base)
        host_block_resize(s_break_base, s_break_base, now - s_break_base, heap(), MT_HOW_CUSTOM,
                          stack_now(tid));
    else
        host_block_free(s_break_base, heap(), MT_HOW_CUSTOM, stack_now(tid));
    s_break = now;
}

/* -- memory whose allocator may not be recorded -- */

/* In nearly every program libc allocates some blocks, so the bytes of all blocks are compared with the bytes
 * that were mapped. Stacks, reserved memory, memory that is shared with forked children (the buffers of a
 * database), the zeroed data of libraries, and what a recorded allocator maps do not count. An allocator maps much in a
 * constructor, before any of its functions is called, so the code that maps is compared as well.
 *
 * An allocator's functions are found by their symbols. A static program may have none. Valgrind reads the
 * symbols of a file only once, so a library that is loaded a second time, into another namespace, has none
 * for the second copy. In both cases no option can name the functions. */

enum { LEAST_MAPPED = 64 << 10, MANY_TIMES = 16 };

static ULong s_mapped; /* bytes */
static Addr s_counted_break;

/* Does an object define malloc? Valgrind replaces that, in every object but those of a static program. */
static Bool defines_malloc(const DebugInfo *object)
{
    static Addr asked; /* the code of the object that was asked for last */
    static Bool answer;
    if (asked == VG_(DebugInfo_get_text_avma)(object))
        return answer;
    asked = VG_(DebugInfo_get_text_avma)(object);
    answer = False;
    for (Int i = VG_(DebugInfo_syms_howmany)(object); !answer && i-- > 0;) {
        SymAVMAs at;
        const HChar *name, **others;
        Bool is_text;
        VG_(DebugInfo_syms_getidx)(object, i, &at, NULL, &name, &others, &is_text, NULL, NULL);
        answer = is_text && VG_(strcmp)(name, "malloc") == 0;
        for (; is_text && others && *others; others++)
            answer |= VG_(strcmp)(*others, "malloc") == 0;
    }
    return answer;
}

/* The object of the code that calls the C library, or makes a system call itself; NULL = it is not known. */
static const DebugInfo *calling_object(ThreadId tid)
{
    enum { CALLS = 4 };
    Addr ips[CALLS];
    const UInt n = VG_(get_StackTrace)(tid, ips, CALLS, NULL, NULL, 0);
    for (UInt i = 0; i < n; i++) {
        const DebugInfo *object = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), ips[i]);
        const HChar *soname = object ? VG_(DebugInfo_get_soname)(object) : NULL;
        if (!soname || !VG_(strstr)(soname, "libc.so"))
            return object;
    }
    return NULL;
}

static Bool is_of_recorded_allocator(ThreadId tid)
{
    if (lt_observe_inside(tid) || lt_lua_inside(tid))
        return True;
    const DebugInfo *object = calling_object(tid);
    return object &&
           ((!lt_observe_is_static() && defines_malloc(object)) ||
            lt_observe_any_in(VG_(DebugInfo_get_text_avma)(object), VG_(DebugInfo_get_text_size)(object)));
}

static void count_unseen(ThreadId tid, UInt number, const UWord *a, Long result)
{
    if (number == __NR_brk) {
        if (s_counted_break && (Addr)result > s_counted_break && !is_of_recorded_allocator(tid))
            s_mapped += (Addr)result - s_counted_break;
        s_counted_break = (Addr)result;
    }
    if (number != __NR_mmap || (result < 0 && result >= -4095))
        return;
    Bool private = (a[3] & MAP_ANONYMOUS_FLAG) && !(a[3] & (MAP_STACK_FLAG | MAP_SHARED_FLAG));
    if (private && !s_over_file && (a[2] & VKI_PROT_WRITE) && !is_of_recorded_allocator(tid))
        s_mapped += a[1];
}

/* The code segment of a library; NULL = it is none. */
static const NSegment *library_code(Addr at)
{
    const NSegment *segment = VG_(am_find_nsegment)(at);
    const HChar *name = segment && segment->hasX ? VG_(am_get_filename)(segment) : NULL;
    return name && VG_(strstr)(name, ".so") ? segment : NULL;
}

static Bool is_code_of_a_library_mapped_twice(const Addr *start, Int n)
{
    for (Int i = 0; i < n; i++) {
        const NSegment *a = library_code(start[i]);
        for (Int j = a ? i + 1 : n; j < n; j++) {
            const NSegment *b = library_code(start[j]);
            if (b && a->dev == b->dev && a->ino == b->ino && a->offset == b->offset)
                return True;
        }
    }
    return False;
}

static Bool is_a_library_loaded_twice(void)
{
    Int n;
    Addr *start = VG_(get_segment_starts)(SkFileC, &n);
    Bool twice = is_code_of_a_library_mapped_twice(start, n);
    VG_(free)(start);
    return twice;
}

/* Why the allocator may not be recorded: a word for the trace, and advice for the user. */
struct reason {
    const HChar *word, *text;
};

static struct reason find_reason(void)
{
    if (lt_observe_is_static() && !lt_observe_any_symbols())
        return (struct reason){
            "static", "It is a static program without symbols, so that its functions cannot be found; "
                      "--heap=mmap records its mappings."};
    if (is_a_library_loaded_twice())
        return (struct reason){
            "copy", "A library is loaded twice (dlmopen), and functions of the second copy cannot be "
                    "found; --heap=mmap records mappings."};
    return (struct reason){
        "names", "--alloc-prefix=PREFIX or --observe-alloc=PATTERN names its functions, --heap=mmap "
                 "records mappings."};
}

void lt_unseen_finish(void)
{
    Bool recorded = lt_options.heap_malloc && !lt_options.heap_mmap;
    if (!recorded || !lt_ring_alive() || s_mapped < LEAST_MAPPED ||
        lt_blocks_seen.bytes >= s_mapped / MANY_TIMES)
        return;
    const struct reason reason = find_reason();
    lt_put_number("unseen_mapped_bytes", s_mapped);
    lt_put_number("unseen_block_bytes", lt_blocks_seen.bytes);
    lt_put_info("unseen_reason", reason.word);
    if (VG_(clo_verbosity) > 0)
        VG_(umsg)
    ("ljtrace: the program mapped %'llu bytes, but blocks of %'llu bytes were seen: its allocator may not be "
     "recorded. %s\n",
     s_mapped, lt_blocks_seen.bytes, reason.text);
}

/* -- system calls -- */

void lt_mmap_before(UInt number, const UWord *a)
{
    if (number != __NR_mmap)
        return;
    const NSegment *segment = a[3] & MAP_FIXED_FLAG ? VG_(am_find_nsegment)(a[0]) : NULL;
    s_over_file = segment && segment->kind == SkFileC;
}

void lt_mmap_after(ThreadId tid, UInt number, const UWord *a, Long result)
{
    count_unseen(tid, number, a, result);
    if (!lt_options.heap_mmap || (result < 0 && result >= -4095))
        return;
    if (number == __NR_mmap)
        mapped(tid, a, (Addr)result);
    else if (number == __NR_munmap)
        unmap(tid, a[0], pages(a[1]));
    else if (number == __NR_mremap && !(a[3] & REMAP_DONTUNMAP))
        moved(tid, a, (Addr)result);
    else if (number == __NR_brk)
        break_moved(tid, (Addr)result);
}
