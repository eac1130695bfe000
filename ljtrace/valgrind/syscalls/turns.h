/* turns.h - make threads take turns. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind runs one thread at a time. A thread releases Valgrind's lock after 100,000 superblocks, but
 * usually it acquires it again before another thread has woken up. So a thread may run to its end before the
 * next one begins, and the trace does not show which threads would have run at the same time. Therefore a
 * thread whose turn is over lets a thread that waits for the lock get it first.
 *
 * Valgrind's --fair-sched also does this, but at each system call as well, which makes programs that read or
 * write in small pieces up to 2.5 times slower. A program that restricts its system calls by seccomp is left
 * alone.
 */
#ifndef LJTRACE_VALGRIND_SYSCALLS_TURNS_H
#define LJTRACE_VALGRIND_SYSCALLS_TURNS_H

/* Call before the options are known. */
void lt_turns_init(void);

#endif
