/* syscalls.h - report what system calls read and write of the program's memory.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A `read` into a block is recorded as a store of exactly the bytes that were read. Which memory a call
 * accesses is known to Valgrind's core; exceptions are in buffers.c and syscalls.c (futexes). Other parts of the tool that
 * have to see each system call are called from here too.
 */
#ifndef LJTRACE_VALGRIND_SYSCALLS_SYSCALLS_H
#define LJTRACE_VALGRIND_SYSCALLS_SYSCALLS_H

#include "ljtrace/protocol/ring.h"
#include "pub_tool_basics.h"

/* Register with the core. */
void lt_syscalls_init(void);

/* Record an access that the kernel makes for the program. */
void lt_syscall_access(enum raw_access kind, Addr addr, SizeT size);

#endif
