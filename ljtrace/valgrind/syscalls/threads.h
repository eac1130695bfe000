/* threads.h - the current thread of the records in the ring, and the names of threads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_SYSCALLS_THREADS_H
#define LJTRACE_VALGRIND_SYSCALLS_THREADS_H

#include "pub_tool_basics.h"

/* From here on, records in the ring belong to this thread. Call it wherever the thread may have changed: when
 * the code of a thread is about to run, and when a system call of a thread is reported, since the core
 * reports what a call did before that thread runs. */
void lt_thread_runs(ThreadId tid);

/* Call before the options are known. */
void lt_thread_init(void);
/* Call when the ring is open. */
void lt_thread_start(void);
/* Call after a system call, which may have named the thread. */
void lt_thread_after(ThreadId tid, UInt syscall, const UWord *args, Long result);
/* If the running thread has a name of its own, write it into the trace as the fact "thread NUMBER". */
void lt_thread_put_name(ThreadId tid);

/* -- turns -- */

/* Valgrind runs one thread at a time. A thread releases Valgrind's lock after 100,000 superblocks, but
 * usually it acquires it again before another thread has woken up. So a thread may run to its end before the
 * next one begins, and the trace does not show which threads would have run at the same time. Therefore a
 * thread whose turn is over lets a thread that waits for the lock get it first.
 *
 * Valgrind's --fair-sched also does this, but at each system call as well, which makes programs that read or
 * write in small pieces up to 2.5 times slower. A program that restricts its system calls by seccomp is left
 * alone. */

/* Call before the options are known. */
void lt_turns_init(void);

#endif
