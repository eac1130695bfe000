/* exec.h - programs that Valgrind cannot run. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_SYSCALLS_EXEC_H
#define LJTRACE_TOOL_SYSCALLS_EXEC_H

#include "pub_tool_basics.h"

/* Around each system call. With --trace-children=yes, a program that Valgrind would refuse runs unrecorded.
 * An exec that the kernel refuses fails by the kernel's errno. The result is the kernel's: negative, an
 * errno. */
void lt_exec_before(UInt number, const UWord *args);
void lt_exec_after(ThreadId tid, UInt number, Long result);
/* Was --trace-children=yes given? Then Valgrind's monitor commands reach forked children, too. */
Bool lt_exec_traces_children(void);

#endif
