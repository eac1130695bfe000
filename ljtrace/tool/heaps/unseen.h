/* unseen.h - tells the user if the program's heap was not seen. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A program whose allocator is neither replaced nor observed maps memory, and hardly any block is recorded.
 */
#ifndef LJTRACE_TOOL_HEAPS_UNSEEN_H
#define LJTRACE_TOOL_HEAPS_UNSEEN_H

#include "pub_tool_basics.h"

/* A block was recorded. */
void lt_unseen_block(SizeT size);
/* System calls. */
void lt_unseen_before(UInt number, const UWord *args);
void lt_unseen_after(ThreadId tid, UInt number, const UWord *args, Long result);
/* At the end: a line for the user, and one in the trace. */
void lt_unseen_finish(void);

#endif
