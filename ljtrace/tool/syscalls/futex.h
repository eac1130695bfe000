/* futex.h - which words a futex call reads and writes. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The core has every such call read its words, and each that succeeds write the first one. To wake touches
 * nothing, and the word may be freed by then, and rightly so: who waits for an unlock may destroy the lock
 * before the one that unlocked wakes others.
 */
#ifndef LJTRACE_TOOL_SYSCALLS_FUTEX_H
#define LJTRACE_TOOL_SYSCALLS_FUTEX_H

#include "pub_tool_basics.h"

/* Call before and after each system call. */
void lt_futex_before(UInt number, const UWord *args);
void lt_futex_after(UInt number, const UWord *args, SysRes result);
/* Is this a word of the call that begins? Its accesses are told here, and not to be told by the core. */
Bool lt_futex_tells(Addr addr);

#endif
