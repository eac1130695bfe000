/* buffers.h - report what system calls read of the program's memory, where the core's report is inexact.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The core reports which memory has to be defined for a call, which may be more or less than what the kernel
 * reads. For the calls that buffers.c knows, the accesses are reported from here, and the core's reports are
 * ignored.
 */
#ifndef LJTRACE_VALGRIND_SYSCALLS_BUFFERS_H
#define LJTRACE_VALGRIND_SYSCALLS_BUFFERS_H

#include "pub_tool_basics.h"

/* Call before and after each system call. result: the kernel's, that is, negative if it is an errno. Accesses
 * are reported to lt_syscall_access. */
void lt_buffers_before(ThreadId tid, UInt number, const UWord *args);
/* Call when the system call has returned. */
void lt_buffers_after(ThreadId tid, UInt number, const UWord *args, Long result);

/* A signal handler of the thread begins. Its system call either is restarted later, or was reported before.
 */
void lt_buffers_interrupted(ThreadId tid);
/* Call in a forked child, which does not have the other threads. */
void lt_buffers_forget(void);

/* The core reports that the call that begins reads this range. Returns true if the range is reported from
 * here instead. */
Bool lt_buffers_report(Addr addr, SizeT size);

#endif
