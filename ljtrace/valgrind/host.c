/* host.c - what the reader of LuaJIT needs from the tool. (host side, no libc)
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

const bool host_mappings_are_known = true;

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

void *host_new(size_t n)
{
    return VG_(calloc)("ljtrace.luajit", 1, n);
}

void *host_resize(void *p, size_t n)
{
    return VG_(realloc)("ljtrace.luajit", p, n);
}

void host_free(void *p)
{
    VG_(free)(p);
}

/* -- the thread -- */

uint32_t host_thread(void)
{
    return VG_(get_running_tid)();
}

uint64_t host_stack_begin(uint32_t thread)
{
    return VG_(thread_get_stack_max)(thread) - VG_(thread_get_stack_size)(thread);
}

uint64_t host_stack_end(uint32_t thread)
{
    return VG_(thread_get_stack_max)(thread);
}

uint64_t host_code_pointer(uint32_t thread)
{
    return VG_(get_IP)(thread);
}

uint64_t host_stack_pointer(uint32_t thread)
{
    return VG_(get_SP)(thread);
}

void host_registers(uint32_t thread, enum host_register first, uint32_t count, uint64_t *to)
{
    VG_(get_shadow_regs_area)
    (thread, (UChar *)to, 0, offsetof(VexGuestAMD64State, guest_RAX) + first * sizeof *to,
     count * sizeof *to);
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

struct raw_text host_text(const char *text)
{
    return lt_text(text);
}

#define RECORD(NAME, name, fields)                                                                           \
    void host_put_##name(const struct ring_##name *r)                                                        \
    {                                                                                                        \
        lt_ring_put_##name(r);                                                                               \
    }
#define FAST_RECORD(NAME, name, fields)
#include "ljtrace/protocol/ring.def"

/* -- messages -- */

void host_say(const char *text)
{
    VG_(umsg)("%s", text);
}

void host_panic(const char *why)
{
    VG_(tool_panic)(why);
}
