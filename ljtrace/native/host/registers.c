/* registers.c - Valgrind's functions for threads and registers, for the code that is shared with the tool.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/host/registers.h"
#include "ljtrace/native/unwind/stack_memory.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"
#include <string.h>

enum { MOST_THREADS = 9999 };

VexGuestAMD64State host_registers;
Bool host_at_entry;

Addr VG_(get_IP)(ThreadId tid)
{
    (void)tid;
    return host_registers.guest_RIP;
}

Addr VG_(get_SP)(ThreadId tid)
{
    (void)tid;
    return host_registers.guest_RSP;
}

void VG_(get_shadow_regs_area)(ThreadId tid, UChar *to, Int shadow, PtrdiffT offset, SizeT size)
{
    (void)tid, (void)shadow;
    memcpy(to, (const UChar *)&host_registers + offset, size);
}

/* The number of the calling thread. */
ThreadId VG_(get_running_tid)(void)
{
    static __thread __attribute__((tls_model("initial-exec"))) ThreadId t_id;
    static ThreadId s_last;
    if (!t_id)
        t_id = s_last = s_last % MOST_THREADS + 1;
    return t_id;
}

Addr VG_(thread_get_stack_max)(ThreadId tid)
{
    (void)tid;
    return stack_memory_from(host_registers.guest_RSP).high;
}

SizeT VG_(thread_get_stack_size)(ThreadId tid)
{
    (void)tid;
    struct stack_memory m = stack_memory_from(host_registers.guest_RSP);
    return m.high - m.low;
}
