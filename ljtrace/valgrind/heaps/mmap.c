/* mmap.c - the program's own mappings. (host side, no libc; see mmap.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Only the program's system calls are seen here. The C allocator is Valgrind's and makes none of them. What
 * the allocator of a Lua state maps while it is watched is its raw material. What is mapped while the thread hides is the
 * recorder's (ljtrace/luajit/base/hiding.h). A mapping over a part of a
 * file's mapping (the zeroed data of a library) belongs to the file. The program break is one block, from
 * where it was first. If a block is unmapped in part, the collector cuts it.
 */
#include "ljtrace/luajit/base/guest_memory.h"
#include "ljtrace/luajit/base/hiding.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/heaps/malloc.h"
#include "ljtrace/valgrind/heaps/mmap.h"
#include "ljtrace/valgrind/ring/block_filter.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "memtrace/memtrace.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { PAGE = 4096, MAP_ANONYMOUS_FLAG = 0x20, MAP_FIXED_FLAG = 0x10, REMAP_DONTUNMAP = 4 };

static Bool s_over_file; /* the mapping being made replaces a part of a file's mapping */
static Addr s_break_base, s_break;

static UWord pages(UWord size)
{
    return (size + PAGE - 1) & ~(UWord)(PAGE - 1);
}

/* The system call has just changed which memory is readable. */
static const struct lt_stack *take(ThreadId tid)
{
    static struct lt_stack stack;
    lt_guest_forget();
    if (lt_lua_inside(tid))
        host_take_stack(tid, &stack); /* raw material: the call of the allocator shows whose it is */
    else
        lt_take_own_stack(tid, &stack);
    return &stack;
}

static Addr heap(void)
{
    static Bool written;
    if (!written)
        RING_PUT(heap, .kind = RAW_KIND_MMAP, .heap = RAW_HEAP_MMAP);
    written = True;
    return RAW_HEAP_MMAP;
}

static void unmap(ThreadId tid, Addr addr, UWord size)
{
    lt_put_unmap(heap(), addr, size, take(tid));
}

void lt_mmap_before(UInt number, const UWord *a)
{
    if (!lt_options.heap_mmap || number != __NR_mmap)
        return;
    const NSegment *segment = a[3] & MAP_FIXED_FLAG ? VG_(am_find_nsegment)(a[0]) : NULL;
    s_over_file = segment && segment->kind == SkFileC;
}

static void mapped(ThreadId tid, const UWord *a, Addr addr)
{
    Bool anonymous = (a[3] & MAP_ANONYMOUS_FLAG) != 0;
    if (a[3] & MAP_FIXED_FLAG)
        unmap(tid, addr, pages(a[1]));
    if (lt_lua_inside(tid) || lt_is_hiding(tid) || (anonymous ? s_over_file : !lt_options.heap_files))
        return;
    host_block_new(addr, a[1], heap(), MT_HOW_CUSTOM, take(tid));
}

/* A block has the size that was requested; its mapping extends to the end of the last page. */
static void moved(ThreadId tid, const UWord *a, Addr addr)
{
    lt_filter_add(addr, a[2]);
    if (lt_lua_inside(tid))
        unmap(tid, a[0], pages(a[1]));
    else
        lt_put_remap(heap(), a[0], a[1], addr, a[2], take(tid));
}

static void break_moved(ThreadId tid, Addr now)
{
    if (!s_break_base)
        s_break_base = s_break = now;
    if (now == s_break)
        return;
    if (s_break == s_break_base)
        host_block_new(s_break_base, now - s_break_base, heap(), MT_HOW_CUSTOM, take(tid));
    else if (now > s_break_base)
        host_block_resize(s_break_base, s_break_base, now - s_break_base, heap(), MT_HOW_CUSTOM, take(tid));
    else
        host_block_free(s_break_base, heap(), MT_HOW_CUSTOM, take(tid));
    s_break = now;
}

void lt_mmap_after(ThreadId tid, UInt number, const UWord *a, Long result)
{
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
