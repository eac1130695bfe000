/* lt_kernel.c - what system calls do to the program's memory. (host side, no libc; see lt_kernel.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "lt_kernel.h"
#include "lt_exec.h"
#include "lt_mmap.h"
#include "lt_options.h"
#include "lt_peek.h"
#include "lt_ring.h"
#include "lt_signals.h"
#include "lt_smc.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum { LONGEST_TEXT = 128 << 10 }; /* that the kernel takes: an argument of execve */

/* Memory that the kernel reads or writes for the program is accessed like any other. */
static void touch(CorePart part, enum raw_access kind, Addr addr, SizeT size)
{
    uint64_t words[2] = {addr, size};
    if ((part == Vg_CoreSysCall || part == Vg_CoreSignal) && size > 0 && lt_options.trace_mem)
        lt_ring_put(RAW_TOUCH, kind, words, 2, NULL, 0);
}

static void on_kernel_reads(CorePart part, ThreadId tid, const HChar *what, Addr addr, SizeT size)
{
    touch(part, RAW_LOAD, addr, size);
}

static void on_kernel_reads_string(CorePart part, ThreadId tid, const HChar *what, Addr addr)
{
    SizeT length = lt_peek_length(addr, LONGEST_TEXT);
    touch(part, RAW_LOAD, addr, length + lt_readable(addr + length, 1));
}

/* The last write of the call that is ending, until its result is known. */
static struct {
    Addr addr;
    SizeT size;
} s_held;

static void release(void)
{
    touch(Vg_CoreSysCall, RAW_STORE, s_held.addr, s_held.size);
    s_held.size = 0;
}

static void on_kernel_wrote(CorePart part, ThreadId tid, Addr addr, SizeT size)
{
    if (part != Vg_CoreSysCall) { /* a signal's frame, which may lie on a stack on the heap */
        touch(part, RAW_STORE, addr, size);
        return;
    }
    release();
    s_held.addr = addr;
    s_held.size = size;
}

/* The core takes these calls to fill their buffers; they fill as much as they say. */
static void release_at_end(UInt number, const UWord *args, SysRes result)
{
    Addr buffer = number == __NR_recvfrom ? args[1] : number == __NR_sched_getaffinity ? args[2] : 0;
    if (buffer && s_held.addr == buffer && !sr_isError(result) && sr_Res(result) < s_held.size)
        s_held.size = sr_Res(result);
    release();
}

static void put_exec(UInt number, UInt begins)
{
    if (number == __NR_execve || number == __NR_execveat)
        lt_ring_put(RAW_EXEC, begins, &lt_ring->instructions, 1, NULL, 0);
}

static void before_syscall(ThreadId tid, UInt number, UWord *args, UInt count)
{
    put_exec(number, 1);
    lt_exec_before(number, args);
    lt_mmap_before(number, args);
    lt_smc_before(number, args);
}

/* An exec that returns has failed. */
static void after_syscall(ThreadId tid, UInt number, UWord *args, UInt count, SysRes result)
{
    release_at_end(number, args, result);
    put_exec(number, 0);
    Long value = sr_isError(result) ? -(Long)sr_Err(result) : (Long)sr_Res(result);
    lt_exec_after(tid, number, value);
    lt_mmap_after(tid, number, args, value);
    lt_smc_after(number, args, value);
    lt_signals_after(tid, number, value);
}

void lt_kernel_init(void)
{
    VG_(track_pre_mem_read)(on_kernel_reads);
    VG_(track_pre_mem_read_asciiz)(on_kernel_reads_string);
    VG_(track_post_mem_write)(on_kernel_wrote);
    VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
}
