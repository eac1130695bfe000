/* unseen.h - warn the user if the program's allocator was not recorded. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * If the allocator is neither replaced nor observed, the program maps memory but hardly any block is
 * recorded.
 */
#ifndef LJTRACE_VALGRIND_HEAPS_UNSEEN_H
#define LJTRACE_VALGRIND_HEAPS_UNSEEN_H

#include "pub_tool_basics.h"

/* Call before each system call. */
void lt_unseen_before(UInt number, const UWord *args);
/* Call after each system call. */
void lt_unseen_after(ThreadId tid, UInt number, const UWord *args, Long result);
/* At the end of the program: write the warning, and facts into the trace. */
void lt_unseen_finish(void);

#endif
