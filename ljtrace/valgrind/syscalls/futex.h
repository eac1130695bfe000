/* futex.h - report which words a futex call reads and writes. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The core reports that every futex call reads its words, and that each successful one writes the first. But
 * waking a thread accesses no memory. The word may even be freed by then, which is correct: a thread that
 * waits for an unlock may destroy the lock before the thread that unlocked it wakes others.
 */
#ifndef LJTRACE_VALGRIND_SYSCALLS_FUTEX_H
#define LJTRACE_VALGRIND_SYSCALLS_FUTEX_H

#include "pub_tool_basics.h"

/* Call before each system call. */
void lt_futex_before(UInt number, const UWord *args);
/* Call after each system call. */
void lt_futex_after(UInt number, const UWord *args, SysRes result);
/* The core reports that the call that begins accesses this word. Returns true if the access is reported from
 * here instead. */
Bool lt_futex_reports(Addr addr);

#endif
