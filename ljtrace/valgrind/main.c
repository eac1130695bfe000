/* main.c - ljtrace, a Valgrind tool that records a program's heap into a memtrace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Three programs work together. The tool, here, instruments the program and writes what happens, raw, into a
 * ring of shared memory (ljtrace/protocol/ring.h). The collector (collector/) reads the ring in another
 * process, knows which addresses are in blocks, and writes the memtrace. The preload (preload/) runs inside
 * the program and informs the tool of LuaJIT's allocators. The tool itself never encodes, compresses or
 * writes files: it has no libc, and what it leaves to the collector runs on another core and survives
 * whatever kills the program.
 *
 * Folders, from the bottom up; none uses one that is listed after it, except by calling hooks:
 *
 * base/          options, memory of the program, the tool's own system calls, settings of the translator
 * ring/          the ring, its records, heap events; which blocks are filtered out; removal of records that turned out
 *                to be an allocator's
 * stacks/        C stacks, the names of their frames
 * luajit/        which LuaJITs are loaded, changes of the VM state, machine code of traces, calls of C from it; what reads
 *                LuaJIT itself is in ljtrace/luajit/, which lies between stacks/ and this
 * heaps/         malloc and its relatives, mappings, custom heaps, observed and unknown allocators; leaks
 * instrument/    what is added to the translated code; accesses, segments, samples, --toggle-fn
 * syscalls/      what system calls access; futexes, exec, threads and their turns
 * session/       the trace's name, client requests and monitor commands, forked children
 *
 * Translated code calls functions of observed allocators, so instrument/ comes after heaps/. What a folder needs of one
 * that is listed after it is a hook: lt_vm_hook, lt_option_add, lt_run_time_code_named_by, lt_before_block_ends.
 * regtest/cases/test_layers.py compares the order with the symbols that the object files use.
 */
#include "config.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/jit/assembler.h"
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/luajit/snapshot/snapshot.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/protocol/pool_settings.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "ljtrace/valgrind/base/self_modifying.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/heaps/leak_scan.h"
#include "ljtrace/valgrind/heaps/malloc.h"
#include "ljtrace/valgrind/heaps/observe.h"
#include "ljtrace/valgrind/heaps/pools.h"
#include "ljtrace/valgrind/heaps/mmap.h"
#include "ljtrace/valgrind/instrument/dead_puts.h"
#include "ljtrace/valgrind/instrument/instrument.h"
#include "ljtrace/valgrind/instrument/toggle.h"
#include "ljtrace/valgrind/luajit/allocator_calls.h"
#include "ljtrace/valgrind/luajit/images.h"
#include "ljtrace/valgrind/luajit/vmstate.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/session/child.h"
#include "ljtrace/valgrind/session/requests.h"
#include "ljtrace/valgrind/session/trace_name.h"
#include "ljtrace/valgrind/stacks/modules.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "ljtrace/valgrind/syscalls/syscalls.h"
#include "ljtrace/valgrind/syscalls/threads.h"
#include "memtrace/memtrace.h"
#include "pub_tool_aspacehl.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"

/* -- facts -- */

static void put_settings(void)
{
    HChar key[64];
    for (UInt i = 0; i < POOL_SETTINGS; i++) {
        const HChar *value = VG_(getenv)(pool_settings[i]);
        VG_(snprintf)(key, sizeof key, POOL_SETTING_FACT "%s", pool_settings[i]);
        if (value)
            lt_put_info(key, value);
    }
}

/* Write all facts that are known at the start. */
static void put_facts(void)
{
    static HChar text[8192];
    struct vki_timeval now;
    lt_put_info("tool", "ljtrace " PACKAGE_VERSION);
    lt_put_info("valgrind", VG_VERSION);
    lt_put_number("pid", VG_(getpid)());
    VG_(client_cmd_and_args)(text, sizeof text);
    lt_put_info("command", text);
    VG_(client_fname)(text, sizeof text, True);
    lt_put_info("executable", text);
    VG_(gettimeofday)(&now, NULL);
    lt_put_number("start_unix_seconds", now.tv_sec);
    lt_put_info("trace_mem", lt_options.trace_mem ? "yes" : "no");
    lt_put_info("trace_freed", lt_options.trace_freed ? "yes" : "no");
    lt_put_number("stack_depth", lt_options.stack_depth);
    lt_observe_put_facts();
    if (lt_options.snapshot_growing)
        lt_put_info("universe", "growing");
    if (lt_options.sample_stacks)
        lt_put_number("sample_stacks", lt_options.sample_stacks);
    put_settings();
    if (!lt_options.sample_blocks)
        return;
    lt_put_number("sample_every", lt_options.sample_blocks);
    lt_put_number("sample_seed", lt_options.sample_seed);
}

/* -- how the program ended -- */

/* Valgrind informs the tool that the program has ended, but not whether a signal ended it. The last action of
 * Valgrind is to end itself in the same way, by one of the functions that are wrapped here (the linker's
 * --wrap). They show the exit status or the signal. */

static Bool s_has_ended; /* the program, but not yet the recording */

void __real_vgPlain_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_exit(Int status) __attribute__((noreturn));
void __real_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __real_vgPlain_kill_self(Int signal);
void __wrap_vgPlain_kill_self(Int signal);

/* End the recording, which says how the program ended. status: as waitpid has it. */
static void finish(Int status)
{
    if (!s_has_ended)
        return;
    s_has_ended = False;
    lt_ring->status = status;
    lt_ring->ended = RING_EXITED;
    if (lt_ring_finish(MT_ENDING_EXIT) && VG_(clo_verbosity) > 0)
        VG_(umsg)("ljtrace: memtrace written to %s\n", lt_child_name());
}

void __wrap_vgPlain_exit(Int status)
{
    finish((status & 0xff) << 8);
    __real_vgPlain_exit(status);
}

void __wrap_vgPlain_client_exit(Int status)
{
    finish((status & 0xff) << 8);
    __real_vgPlain_client_exit(status);
}

void __wrap_vgPlain_kill_self(Int signal)
{
    finish(signal);
    __real_vgPlain_kill_self(signal);
}

/* -- the recording -- */

/* Start the recording under the first name that is free. Returns the name, or NULL if recording is not
 * possible. */
static const HChar *start_recording(void)
{
    enum lt_start started = LT_START_TAKEN;
    const HChar *out = lt_name_first();
    while (out && (started = lt_ring_start(out)) != LT_START_OK && started != LT_START_FAILED)
        out = lt_name_next(started == LT_START_BUSY);
    return started == LT_START_OK ? out : NULL;
}

/* Recording is not possible; the user was informed why. If another program started this one, perhaps in
 * another directory, as another user or within other limits, this one runs unrecorded. Otherwise nothing is
 * run. */
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
    lt_prefault_start();
    lt_child_init(out ? out : "");
    lt_smc_init();
    lt_vex_init();
    lt_dead_puts_init();
    put_facts();
    lt_name_cut();
    lt_observe_start();
    lt_options_for_successors();
    lt_requests_start();
}

static void on_thread_runs(ThreadId tid, ULong blocks)
{
    program_forget();
    lt_accesses_follow_ring();
    lt_thread_runs(tid);
}

static void on_unmapped(Addr a, SizeT len)
{
    lt_lua_unwatch(a, a + len);
    lt_image_unmapped(a, len);
    lt_observe_unmapped(a, len);
    lt_leak_scan_unmapped(a, len);
    lt_modules_unmapped(a, len);
}

/* Memory was mapped by the program or for it. Valgrind's own malloc is not seen here; its superblocks may
 * have been in the same place before. */
static void on_mapped(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle)
{
    HOST_PUT(mapped, .addr = a, .size = len);
    on_unmapped(a, len); /* whatever was mapped there before is gone */
    lt_observe_mapped();
    if (handle)
        lt_modules_update();
    if (xx)
        lt_forget_frames();
}

/* Memory that the program has when it starts. */
static void on_startup(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle)
{
    if (handle)
        lt_modules_update();
}

static void fini(Int status)
{
    lt_toggle_finish();
    lt_observe_finish();
    lt_unseen_finish();
    lt_report_checked_stacks();
    lt_types_settle_all();
    lt_snapshot_take_due();
    if (lt_options.snapshot_at_exit && lt_ring_alive())
        lt_snapshot_at_exit();
    lt_thread_put_name(VG_(get_running_tid)());
    lt_leak_scan_finish(VG_(get_running_tid)());
    s_has_ended = True;
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
    VG_(track_new_mem_startup)(on_startup);
    VG_(track_new_mem_mmap)(on_mapped);
    VG_(track_die_mem_munmap)(on_unmapped);
    lt_options_init();
    lt_toggle_init();
    lt_observe_init();
    lt_watch_init(); /* the end of a state is recorded before anything of it is freed */
    lt_recording_init();
    lt_asm_init();
    lt_types_init();
    lt_run_time_code_named_by(lt_trace_name_access);
    lt_heap_init();
    lt_syscalls_init();
    lt_requests_init();
    lt_pools_init();
    lt_vex_defaults();
}

VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)
