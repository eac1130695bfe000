/* turns.h - threads take turns. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind runs one thread at a time, and lets go of its lock after 100,000 superblocks; but the thread that let go
 * mostly takes it again before another one has woken up. So one thread may run to its end before the next begins, and
 * what they would do at the same time is not seen. Here the thread whose turn is over waits a moment, so that one that
 * waits for the lock gets it. Valgrind's --fair-sched does so at each system call as well, which makes programs that
 * read or write in small pieces up to 2.5 times slower. A program that forbids itself system calls is left alone.
 */
#ifndef LJTRACE_TOOL_SYSCALLS_TURNS_H
#define LJTRACE_TOOL_SYSCALLS_TURNS_H

/* Before the options are known. */
void lt_turns_init(void);

#endif
