/* exec.h - let a program exec programs that Valgrind cannot run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * See exec.c for the cases.
 */
#ifndef LJTRACE_VALGRIND_SYSCALLS_EXEC_H
#define LJTRACE_VALGRIND_SYSCALLS_EXEC_H

#include "pub_tool_basics.h"

/* Call before and after each system call. result: the kernel's, that is, negative if it is an errno.
 * With --trace-children=yes, a program that Valgrind would refuse to run is run unrecorded. An exec that the
 * kernel would refuse fails with the kernel's errno. */
void lt_exec_before(UInt number, const UWord *args);
/* Call when the system call has returned. */
void lt_exec_after(ThreadId tid, UInt number, Long result);
/* Call in a forked child. It mostly executes another program, so that it is not worth a message. */
void lt_exec_in_child(void);
/* Was --trace-children=yes given? Only then do Valgrind's monitor commands reach forked children. */
Bool lt_exec_traces_children(void);

#endif
