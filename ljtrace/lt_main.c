/* lt_main.c - ljtrace, a Valgrind tool that records a program's heap into a memtrace. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Three programs work together. The tool, here, instruments the program and writes what happens, raw, into a ring
 * of shared memory (ring.h). The collector (collector/) reads the ring in another process, knows what is heap, and
 * writes the memtrace. The preload (preload/) runs inside the program and tells the tool where LuaJIT's allocators
 * are. The tool itself never encodes, compresses or writes files: it has no libc, and what it leaves to the
 * collector runs on another core and survives whatever kills the program.
 *
 * lt_instrument.c, lt_segment.c   accesses         lt_heap.c   the C heap
 * lt_lua.c                        LuaJIT's heaps   lt_frames.c stacks and names
 * lt_ring.c, lt_sys.c             the ring         lt_options.c the command line
 *
 * It does not follow a forked child (which runs on unrecorded) and does not attribute events to Lua lines.
 */
#include "config.h"
#include "ljtrace.h"
#include "lt_frames.h"
#include "lt_heap.h"
#include "lt_instrument.h"
#include "lt_lua.h"
#include "lt_options.h"
#include "lt_ring.h"
#include "../memtrace/memtrace.h"
#include "pub_tool_aspacehl.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vkiscnums.h"

enum { NAME_MAX_BYTES = 1000 };

static HChar *s_out; /* the trace's name, expanded */
static ThreadId s_thread;

static void put_info(const HChar *key, const HChar *value)
{
    const HChar *text[2] = {key, value};
    UInt size[2] = {VG_(strlen)(key), VG_(strlen)(value)};
    uint64_t words[1] = {raw_pair(size[0], size[1])};
    lt_ring_put_text(RAW_INFO, words, 1, text, size, 2);
}

static void put_number(const HChar *key, ULong n)
{
    HChar text[32];
    VG_(sprintf)(text, "%llu", n);
    put_info(key, text);
}

static void put_facts(void)
{
    static HChar text[8192];
    struct vki_timeval now;
    put_info("tool", "ljtrace " PACKAGE_VERSION);
    put_info("valgrind", VG_VERSION);
    put_number("pid", VG_(getpid)());
    VG_(client_cmd_and_args)(text, sizeof text);
    put_info("command", text);
    VG_(client_fname)(text, sizeof text, True);
    put_info("executable", text);
    VG_(gettimeofday)(&now, NULL);
    put_number("start_unix_seconds", now.tv_sec);
    put_info("trace_mem", lt_options.trace_mem ? "yes" : "no");
    put_number("stack_depth", lt_options.stack_depth);
}

static void on_fork_in_child(ThreadId tid)
{
    lt_ring_abandon();
}

static void post_clo_init(void)
{
    HChar level[8];
    VG_(sprintf)(level, "%d", lt_options.level);
    s_out = VG_(expand_file_name)("--out", lt_options.out);
    if (!lt_ring_start(s_out, level)) {
        VG_(fmsg)("nothing was run; give a writable file with --out=FILE\n");
        VG_(exit)(1);
    }
    VG_(atfork)(NULL, NULL, on_fork_in_child);
    put_facts();
}

static void on_thread_runs(ThreadId tid, ULong blocks)
{
    if (tid == s_thread)
        return;
    s_thread = tid;
    lt_ring_put(RAW_THREAD, tid, NULL, 0, NULL, 0);
    lt_lua_thread(tid);
}

static void on_code_mapped(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle)
{
    if (xx)
        lt_forget_frames();
}

static void put_mark(const HChar *name)
{
    UInt size = VG_(strlen)(name);
    if (size > NAME_MAX_BYTES)
        size = NAME_MAX_BYTES;
    uint64_t words[2] = {lt_ring->instructions, size};
    lt_ring_put_text(RAW_MARK, words, 2, &name, &size, 1);
}

static Bool on_request(ThreadId tid, UWord *args, UWord *ret)
{
    *ret = 0;
    switch (args[0]) {
    case LJTRACE_REQUEST_MARK:
        put_mark((const HChar *)args[1]);
        return True;
    case LJTRACE_REQUEST_WATCH_ALLOCATOR:
        lt_lua_watch(args[1], args[2] != 0);
        return True;
    case LJTRACE_REQUEST_HEAP_CLOSED:
        lt_lua_heap_closed(args[1]);
        return True;
    case LJTRACE_REQUEST_HIDE:
        lt_heap_hide(tid, args[1] != 0);
        return True;
    default:
        return False;
    }
}

static void pre_syscall(ThreadId tid, UInt number, UWord *args, UInt count)
{
    if (number == __NR_execve || number == __NR_execveat)
        lt_ring_put(RAW_EXEC, 0, &lt_ring->instructions, 1, NULL, 0);
}

static void post_syscall(ThreadId tid, UInt number, UWord *args, UInt count, SysRes result)
{
}

static void fini(Int status)
{
    if (!lt_ring_alive())
        return;
    lt_ring_finish(MT_ENDING_EXIT);
    if (VG_(clo_verbosity) > 0)
        VG_(umsg)("ljtrace: memtrace written to %s\n", s_out);
}

/* Loads whose value is never used are accesses as well; VEX keeps them only so. */
static void keep_dead_loads(void)
{
    VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtMemAccess;
    VG_(clo_px_file_backed) = VexRegUpdAllregsAtMemAccess;
}

static void pre_clo_init(void)
{
    VG_(details_name)("ljtrace");
    VG_(details_version)(PACKAGE_VERSION);
    VG_(details_description)("a recorder of heap accesses with LuaJIT in view");
    VG_(details_copyright_author)("Free software under the GPL, version 2 or later.");
    VG_(details_bug_reports_to)("the ljtrace maintainers");
    VG_(details_avg_translation_sizeB)(320);
    VG_(basic_tool_funcs)(post_clo_init, lt_instrument, fini);
    VG_(needs_client_requests)(on_request);
    VG_(needs_syscall_wrapper)(pre_syscall, post_syscall);
    VG_(track_start_client_code)(on_thread_runs);
    VG_(track_new_mem_mmap)(on_code_mapped);
    lt_options_init();
    lt_heap_init();
    keep_dead_loads();
}

VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)
