/* threads.h - which thread the words of the ring are of, and what it is called. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_SYSCALLS_THREADS_H
#define LJTRACE_TOOL_SYSCALLS_THREADS_H

#include "pub_tool_basics.h"

/* What is put into the ring from here on is this thread's. To be called wherever one may follow another: when
 * its code runs on, and when a system call of its is told of, since the core tells what a call did before
 * that. */
void lt_thread_runs(ThreadId tid);

/* Before the command line is known, and when there is a ring. */
void lt_thread_init(void);
void lt_thread_start(void);
/* After a system call: it may have named the thread. */
void lt_thread_after(ThreadId tid, UInt syscall, const UWord *args, Long result);
/* Put the name of the running thread into the trace, as "thread NUMBER" of its facts, if it has one of its own. */
void lt_thread_put_name(ThreadId tid);

#endif
