/* syscalls.h - system calls: the memory they read and write, and the program's replacement. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A `read` into a block is a store of exactly the bytes that came; Valgrind's core knows each call's memory.
 */
#ifndef LJTRACE_TOOL_SYSCALLS_SYSCALLS_H
#define LJTRACE_TOOL_SYSCALLS_SYSCALLS_H

#include "ljtrace/protocol/ring.h"
#include "pub_tool_basics.h"

void lt_kernel_init(void);

/* Tell an access by the kernel for the program. */
void lt_touch(enum raw_access kind, Addr addr, SizeT size);

#endif
