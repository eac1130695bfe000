/* syscalls.c - what system calls do to the program's memory. (see syscalls.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/valgrind/syscalls/syscalls.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "ljtrace/valgrind/base/self_modifying.h"
#include "ljtrace/valgrind/stacks/modules.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/heaps/mmap.h"
#include "ljtrace/valgrind/instrument/dead_puts.h"
#include "ljtrace/valgrind/luajit/machine_code.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/syscalls/buffers.h"
#include "ljtrace/valgrind/syscalls/exec.h"
#include "ljtrace/valgrind/syscalls/threads.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

/* -- futexes -- */

/* The core reports that every futex call reads its words, and that each successful one writes the first. But
 * waking a thread accesses no memory. The word may even be freed by then, which is correct: a thread that
 * waits for an unlock may destroy the lock before the thread that unlocked it wakes others.
 *
 * futex(2) of the Linux manual pages says which words a call reads and writes. One write is not reported: a
 * lock that the kernel hands over to a waiting thread (FUTEX_WAIT_REQUEUE_PI) is written during another
 * thread's call. */

enum { COMMANDS = 127, LOCK_PI2 = 13, WORD_BYTES = 4 }; /* the other bits are flags */

static Addr s_word[2];

/* The word that a successful call writes; 0 = none. */
static Addr written(const UWord *args)
{
    switch (args[1] & COMMANDS) {
    case VKI_FUTEX_WAKE_OP:
        return args[4];
    case VKI_FUTEX_LOCK_PI:
    case VKI_FUTEX_TRYLOCK_PI:
    case VKI_FUTEX_UNLOCK_PI:
    case LOCK_PI2:
        return args[0];
    default:
        return 0;
    }
}

/* The word that a call reads; 0 = none. */
static Addr read(const UWord *args)
{
    switch (args[1] & COMMANDS) {
    case VKI_FUTEX_WAKE:
    case VKI_FUTEX_WAKE_BITSET:
    case VKI_FUTEX_REQUEUE:
        return 0;
    case VKI_FUTEX_WAKE_OP:
        return args[4];
    default:
        return args[0];
    }
}

/* Call before each system call. */
static void futex_before(UInt number, const UWord *args)
{
    Bool is_futex = number == __NR_futex;
    s_word[0] = is_futex ? args[0] : 0;
    s_word[1] = is_futex ? args[4] : 0;
    if (is_futex && read(args))
        lt_syscall_access(RAW_LOAD, read(args), WORD_BYTES);
}

/* Call after each system call. */
static void futex_after(UInt number, const UWord *args, SysRes result)
{
    if (number == __NR_futex && !sr_isError(result) && written(args))
        lt_syscall_access(RAW_STORE, written(args), WORD_BYTES);
}

/* The core reports that the call that begins accesses this word. Returns true if the access is reported from
 * here instead. */
static Bool futex_reports(Addr addr)
{
    return addr && (addr == s_word[0] || addr == s_word[1]);
}

/* -- all system calls -- */

enum { LONGEST_TEXT = 128 << 10 }; /* of an argument of execve */

void lt_syscall_access(enum raw_access kind, Addr addr, SizeT size)
{
    if (size > 0 && lt_accesses_recorded())
        HOST_PUT(touch, .access = kind, .addr = addr, .size = size);
}

/* Is the access made for the program? Then record which thread it belongs to. The core also reports accesses
 * of its own. */
static Bool is_for_program(CorePart part, ThreadId tid)
{
    if (part != Vg_CoreSysCall && part != Vg_CoreSignal)
        return False;
    lt_thread_runs(tid);
    return True;
}

static void on_kernel_reads(CorePart part, ThreadId tid, const HChar *what, Addr addr, SizeT size)
{
    Bool written = part == Vg_CoreSysCall && (lt_buffers_report(addr, size) || futex_reports(addr));
    if (is_for_program(part, tid) && !written)
        lt_syscall_access(RAW_LOAD, addr, size);
}

static void on_kernel_reads_string(CorePart part, ThreadId tid, const HChar *what, Addr addr)
{
    SizeT length = program_text_length(addr, LONGEST_TEXT);
    if (is_for_program(part, tid))
        lt_syscall_access(RAW_LOAD, addr, length + program_readable(addr + length, 1));
}

/* The last writes of the call that is ending. They are reported when its result is known. */
enum { HELD = 4 };
static struct held {
    Addr addr;
    SizeT size;
} s_held[HELD];
static UInt s_holds;

static void on_kernel_wrote(CorePart part, ThreadId tid, Addr addr, SizeT size)
{
    if (part != Vg_CoreSysCall) { /* a signal frame; the stack may be in a block */
        lt_buffers_interrupted(tid);
        if (is_for_program(part, tid))
            lt_syscall_access(RAW_STORE, addr, size);
        return;
    }
    lt_thread_runs(tid);
    if (s_holds == HELD) {
        lt_syscall_access(RAW_STORE, s_held[0].addr, s_held[0].size);
        VG_(memmove)(s_held, s_held + 1, sizeof s_held - sizeof *s_held);
        s_holds--;
    }
    s_held[s_holds++] = (struct held){addr, size};
}

/* The core reports that these calls fill their whole buffer; they fill as many bytes as they return. */
static void store_said(const struct held *h, Addr buffer, SysRes result)
{
    Bool less = buffer == h->addr && !sr_isError(result) && sr_Res(result) < h->size;
    lt_syscall_access(RAW_STORE, h->addr, less ? sr_Res(result) : h->size);
}

/* waitid fills only these fields of a siginfo_t: si_signo, si_errno, si_code, si_pid, si_uid and
 * si_status. */
static void store_info(const struct held *h, Addr info)
{
    if (h->addr != info) {
        lt_syscall_access(RAW_STORE, h->addr, h->size);
        return;
    }
    lt_syscall_access(RAW_STORE, info, 3 * sizeof(Int));
    lt_syscall_access(RAW_STORE, info + 4 * sizeof(Int), 3 * sizeof(Int));
}

/* Since its second version capget fills two sets; the core reports only one. */
static void store_sets(const struct held *h, Addr header, Addr sets)
{
    enum { FIRST_VERSION = 0x19980330, SET_BYTES = 12 };
    Bool two = h->addr == sets && h->size == SET_BYTES && program_number(header, 4) != FIRST_VERSION;
    lt_syscall_access(RAW_STORE, h->addr, two ? 2 * SET_BYTES : h->size);
}

static void release_at_end(UInt number, const UWord *args, SysRes result)
{
    for (const struct held *h = s_held; h < s_held + s_holds; h++)
        if (number == __NR_recvfrom || number == __NR_sched_getaffinity)
            store_said(h, args[number == __NR_recvfrom ? 1 : 2], result);
        else if (number == __NR_waitid)
            store_info(h, args[2]);
        else if (number == __NR_capget)
            store_sets(h, args[0], args[1]);
        else if (number != __NR_futex)
            lt_syscall_access(RAW_STORE, h->addr, h->size);
    s_holds = 0;
}

static void put_exec(UInt number, UInt begins)
{
    if (number != __NR_execve && number != __NR_execveat)
        return;
    if (begins)
        lt_types_settle_all();
    HOST_PUT(exec, .begins = begins, .instructions = lt_ring->instructions);
}

static void before_syscall(ThreadId tid, UInt number, UWord *args, UInt count)
{
    put_exec(number, 1);
    lt_exec_before(number, args);
    lt_buffers_before(tid, number, args);
    futex_before(number, args);
    lt_mmap_before(number, args);
    lt_smc_before(number, args);
    lt_mcode_before(tid, number, args);
    lt_dead_puts_before(number, args);
    lt_system_before(number);
    lt_prefault_before(number, args);
}

/* Call when a system call has returned. An exec that returns has failed. */
static void after_syscall(ThreadId tid, UInt number, UWord *args, UInt count, SysRes result)
{
    lt_thread_runs(tid);
    release_at_end(number, args, result);
    put_exec(number, 0);
    Long value = sr_isError(result) ? -(Long)sr_Err(result) : (Long)sr_Res(result);
    lt_exec_after(tid, number, value);
    lt_buffers_after(tid, number, args, value);
    futex_after(number, args, result);
    lt_mmap_after(tid, number, args, value);
    lt_smc_after(number, args, value);
    lt_mcode_after(value);
    lt_signals_after(tid, number, value);
    lt_thread_after(tid, number, args, value);
}

void lt_syscalls_init(void)
{
    VG_(track_pre_mem_read)(on_kernel_reads);
    VG_(track_pre_mem_read_asciiz)(on_kernel_reads_string);
    VG_(track_post_mem_write)(on_kernel_wrote);
    VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
}
