/* lt_unseen.c - see lt_unseen.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * libc alone makes a few blocks in nearly every program, so what counts is how their bytes compare with those that
 * were mapped. Not counted are stacks, memory that is only reserved, the zeroed data of libraries, and what a recorded
 * allocator maps.
 */
#include "lt_unseen.h"
#include "lt_info.h"
#include "lt_lua.h"
#include "lt_observe.h"
#include "lt_options.h"
#include "lt_ring.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { MAP_ANONYMOUS_FLAG = 0x20, MAP_FIXED_FLAG = 0x10, MAP_STACK_FLAG = 0x20000 };
enum { LEAST_MAPPED = 64 << 10, MANY_TIMES = 16 };

static ULong s_blocks, s_mapped; /* bytes */
static Addr s_break;
static Bool s_over_file; /* the mapping being made replaces a part of a file's */

void lt_unseen_block(SizeT size)
{
    s_blocks += size;
}

void lt_unseen_before(UInt number, const UWord *a)
{
    if (number != __NR_mmap)
        return;
    const NSegment *segment = a[3] & MAP_FIXED_FLAG ? VG_(am_find_nsegment)(a[0]) : NULL;
    s_over_file = segment && segment->kind == SkFileC;
}

void lt_unseen_after(ThreadId tid, UInt number, const UWord *a, Long result)
{
    if (number == __NR_brk) {
        if (s_break && (Addr)result > s_break && !lt_observe_inside(tid) && !lt_lua_inside(tid))
            s_mapped += (Addr)result - s_break;
        s_break = (Addr)result;
    }
    if (number != __NR_mmap || (result < 0 && result >= -4095) || lt_observe_inside(tid) ||
        lt_lua_inside(tid))
        return;
    Bool anonymous = (a[3] & MAP_ANONYMOUS_FLAG) && !(a[3] & MAP_STACK_FLAG);
    if (anonymous && !s_over_file && (a[2] & VKI_PROT_WRITE))
        s_mapped += a[1];
}

void lt_unseen_finish(void)
{
    Bool recorded = lt_options.heap_malloc && !lt_options.heap_mmap;
    if (!recorded || !lt_ring_alive() || s_mapped < LEAST_MAPPED || s_blocks >= s_mapped / MANY_TIMES)
        return;
    lt_put_number("unseen_mapped_bytes", s_mapped);
    lt_put_number("unseen_block_bytes", s_blocks);
    lt_put_info("unseen_static", lt_observe_is_static() ? "yes" : "no");
    if (VG_(clo_verbosity) > 0)
        VG_(umsg)
    ("ljtrace: the program mapped %'llu bytes, but blocks of %'llu bytes were seen: its allocator may not be "
     "recorded. %s--alloc-prefix=PREFIX or --observe-alloc=PATTERN names its functions, --heap=mmap records "
     "mappings.\n",
     s_mapped, s_blocks,
     lt_observe_is_static() ? "It is a static program, whose functions are only found if it has symbols. "
                            : "");
}
