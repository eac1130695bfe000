/* lt_main.c - ljtrace, a Valgrind tool that records a program's heap into a memtrace. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Three programs work together. The tool, here, instruments the program and writes what happens, raw, into a
 * ring of shared memory (ring.h). The collector (collector/) reads the ring in another process, knows what is
 * heap, and writes the memtrace. The preload (preload/) runs inside the program and tells the tool where
 * LuaJIT's allocators are. The tool itself never encodes, compresses or writes files: it has no libc, and
 * what it leaves to the collector runs on another core and survives whatever kills the program.
 *
 * lt_instrument.c, lt_segment.c   accesses         lt_heap.c   the C heap
 * lt_filter.c, lt_inside.c        those left out
 * lt_kernel.c, lt_futex.c         system calls     lt_lua.c    LuaJIT's heaps
 * lt_ring.c, lt_sys.c             the ring         lt_frames.c stacks and names
 * lt_fork.c                       forked children  lt_control.c requests and vgdb
 * lt_options.c, lt_name.c         the command line lt_info.c  facts about the run
 * lt_pools.c, lt_mmap.c           other heaps      lt_toggle.c --toggle-fn
 * lt_observe.c, lt_unseen.c       allocators that are not replaced, or not seen
 * lt_smc.c, lt_mcode.c            code at run time lt_vex.c, lt_core.c  the translator
 * lt_memory.c                     its own memory   lt_end.c   how the program ended
 * lt_signals.c                    timers           lt_exec.c  what Valgrind cannot run
 * lt_vm.c, lt_vm_*.c, lt_peek.c   LuaJIT: stacks, names, traces, types, states
 * lt_reach.c                      pointers left at the end   lt_turns.c  turns of threads
 * lt_universe*.c                  snapshots of all Lua objects
 */
#include "config.h"
#include "lt_control.h"
#include "lt_end.h"
#include "lt_fork.h"
#include "lt_frames.h"
#include "lt_heap.h"
#include "lt_image.h"
#include "lt_info.h"
#include "lt_instrument.h"
#include "lt_kernel.h"
#include "lt_lua.h"
#include "lt_memory.h"
#include "lt_name.h"
#include "lt_observe.h"
#include "lt_options.h"
#include "lt_peek.h"
#include "lt_pools.h"
#include "lt_puts.h"
#include "lt_reach.h"
#include "lt_ring.h"
#include "lt_smc.h"
#include "lt_thread.h"
#include "lt_toggle.h"
#include "lt_universe.h"
#include "lt_turns.h"
#include "lt_unseen.h"
#include "lt_vex.h"
#include "lt_vm_stack.h"
#include "../memtrace/memtrace.h"
#include "pub_tool_aspacehl.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"

/* Under the first name that is free; that name, or NULL if recording is not possible. */
static const HChar *start_recording(void)
{
    enum lt_start started = LT_START_TAKEN;
    const HChar *out = lt_name_first();
    while (out && (started = lt_ring_start(out)) != LT_START_OK && started != LT_START_FAILED)
        out = lt_name_next(started == LT_START_BUSY);
    return started == LT_START_OK ? out : NULL;
}

/* The user has been told why. A program that another one has started, perhaps in another directory, as
 * another user or within other limits, has to run all the same. */
static void go_without_recording(void)
{
    if (lt_options.successor && lt_ring_do_without()) {
        VG_(fmsg)("the program runs on, unrecorded\n");
        return;
    }
    VG_(fmsg)("nothing was run\n");
    VG_(exit)(1);
}

static void post_clo_init(void)
{
    lt_options_check();
    if (!lt_options.out)
        lt_options.out = lt_options.text ? "ljtrace.out.%p.txt" : "ljtrace.out.%p.ljt";
    const HChar *out = start_recording();
    if (!out)
        go_without_recording();
    lt_thread_start();
    lt_memory_start();
    lt_fork_init(out ? out : "");
    lt_smc_init();
    lt_vex_init();
    lt_puts_init();
    lt_put_facts();
    lt_observe_start();
    lt_options_for_successors();
    lt_control_start();
}

static void on_thread_runs(ThreadId tid, ULong blocks)
{
    lt_peek_forget();
    lt_instrument_follow_ring();
    lt_thread_runs(tid);
}

static void on_unmapped(Addr a, SizeT len)
{
    lt_image_unmapped(a, len);
    lt_observe_unmapped(a, len);
    lt_reach_unmapped(a, len);
}

/* By the program, or for it; not by Valgrind's malloc, whose superblocks may have been here before. */
static void on_mapped(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle)
{
    uint64_t words[2] = {a, len};
    lt_ring_put(RAW_MAPPED, 0, words, 2, NULL, 0);
    on_unmapped(a, len); /* what was there before */
    lt_observe_mapped();
    if (xx)
        lt_forget_frames();
}

static void finish(void)
{
    if (lt_ring_finish(MT_ENDING_EXIT) && VG_(clo_verbosity) > 0)
        VG_(umsg)("ljtrace: memtrace written to %s\n", lt_fork_name());
}

static void fini(Int status)
{
    lt_toggle_finish();
    lt_observe_finish();
    lt_unseen_finish();
    lt_report_checked_stacks();
    lt_universe_take_due();
    if (lt_options.universe && lt_ring_alive())
        lt_universe_take("at exit");
    lt_thread_put_name(VG_(get_running_tid)());
    lt_reach_finish(VG_(get_running_tid)());
    lt_end_when_known(finish);
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
    VG_(track_start_client_code)(on_thread_runs);
    lt_thread_init();
    lt_turns_init();
    VG_(track_new_mem_mmap)(on_mapped);
    VG_(track_die_mem_munmap)(on_unmapped);
    lt_options_init();
    lt_heap_init();
    lt_kernel_init();
    lt_control_init();
    lt_pools_init();
    lt_vex_defaults();
}

VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)
