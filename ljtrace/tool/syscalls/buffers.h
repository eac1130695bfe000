/* buffers.h - what system calls read of the program's memory, where the core tells it inexactly. (host
 * side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_SYSCALLS_BUFFERS_H
#define LJTRACE_TOOL_SYSCALLS_BUFFERS_H

#include "pub_tool_basics.h"

/* Around each system call; the result is the kernel's: negative, an errno. What is read is told to lt_touch.
 */
void lt_transfers_before(ThreadId tid, UInt number, const UWord *args);
void lt_transfers_after(ThreadId tid, UInt number, const UWord *args, Long result);

/* How many threads are in calls that send data, of which nothing is told yet. */
extern UInt lt_transfers_waiting;
/* A block ends: tell them all in full, for what they send may be in it. */
void lt_transfers_tell_all(void);
/* A signal's handler runs: the thread's call begins anew, or has been told. */
void lt_transfers_interrupted(ThreadId tid);
/* In a forked child: the other threads are not there. */
void lt_transfers_forget(void);

/* Is this, which the core says is read by the call that begins, told here? */
Bool lt_transfers_tell(Addr addr, SizeT size);

#endif
