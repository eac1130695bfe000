/* prefault.h - memory that the tool takes, in few steps instead of page by page. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_BASE_PREFAULT_H
#define LJTRACE_TOOL_BASE_PREFAULT_H

#include "pub_tool_basics.h"

/* When the collector has been started, by a fork, which makes every page that is there fault once more. */
void lt_memory_start(void);

/* Memory that will be written soon, as a whole: have the kernel put pages there now, all at once. What it can
 * not do is done by the first access, as ever. */
void lt_memory_needed(Addr from, SizeT size);

/* Before each system call: a program that forbids itself calls may be killed for one of ours. From then on
 * none is made here. */
void lt_memory_before(UInt number, const UWord *args);
/* May calls be made that the program need not expect? */
Bool lt_memory_may_call(void);

#endif
