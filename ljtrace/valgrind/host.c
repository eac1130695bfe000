/* host.c - what the reader of LuaJIT needs from the tool.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Implements those parts of ljtrace/luajit/host.h that Valgrind has, and records. C stacks are in stacks/unwind.c, blocks
 * in ring/heap_events.c, images in luajit/images.c.
 */
#include "ljtrace/luajit/host.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"

/* -- memory -- */

bool host_mappings_are_known(void)
{
    return true;
}

bool host_readable(uint64_t a, size_t n, uint64_t *from, uint64_t *to)
{
    const NSegment *s = VG_(am_find_nsegment)(a);
    *from = *to = 0;
    if (!s || !s->hasR || !(s->kind & (SkFileC | SkAnonC | SkShmC)))
        return false;
    if (a + n - 1 > s->end)
        return VG_(am_is_valid_for_client)(a, n, VKI_PROT_READ);
    *from = s->start;
    *to = s->end + 1;
    return true;
}

void *host_resize(void *p, size_t n)
{
    if (n)
        return VG_(realloc)("ljtrace.luajit", p, n);
    VG_(free)(p);
    return NULL;
}

/* -- the thread -- */

uint32_t host_thread(void)
{
    return VG_(get_running_tid)();
}

struct host_range host_stack_range(uint32_t thread)
{
    const Addr end = VG_(thread_get_stack_max)(thread);
    return (struct host_range){end - VG_(thread_get_stack_size)(thread), end};
}

void host_registers(uint32_t thread, uint32_t first, uint32_t count, uint64_t *to)
{
    if (first == HOST_RIP)
        *to = VG_(get_IP)(thread);
    else if (first == HOST_RSP && count == 1)
        *to = VG_(get_SP)(thread);
    else
        VG_(get_shadow_regs_area)
    (thread, (UChar *)to, 0, offsetof(VexGuestAMD64State, guest_RAX) + first * sizeof *to,
     count * sizeof *to);
}

struct host_here host_here(uint32_t thread)
{
    return (struct host_here){VG_(get_IP)(thread), VG_(get_SP)(thread)};
}

/* -- objects -- */

const char *host_function_name(uint64_t code)
{
    const HChar *name;
    return VG_(get_fnname)(VG_(current_DiEpoch)(), code, &name) ? name : NULL;
}

/* -- records -- */

bool host_records(void)
{
    return lt_ring_alive();
}

uint64_t host_time(void)
{
    return lt_ring->instructions;
}

/* -- snapshots: the program waits, and its time is not the machine's -- */

enum host_copy host_copy_begin(void)
{
    return HOST_COPY_NONE;
}

void host_copy_end(uint64_t key, uint64_t number)
{
    (void)key, (void)number;
    host_panic("there is no copy of the process");
}

bool host_copy_result(uint64_t key, uint64_t *number)
{
    (void)key, (void)number;
    return false;
}

bool host_copy_runs(void)
{
    return false;
}

void host_stop_begins(void)
{
}

void host_stop_ends(void)
{
}

/* -- messages -- */

void host_say(const char *text)
{
    VG_(umsg)("%s", text);
}

void host_panic(const char *why)
{
    VG_(tool_panic)(why);
}
