/* prefault.h - populate the tool's memory in few system calls, instead of by one page fault for each page.
 *
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_BASE_PREFAULT_H
#define LJTRACE_VALGRIND_BASE_PREFAULT_H

#include "pub_tool_basics.h"

/* Call after the collector was started: that is done by a fork, after which each page that is present faults
 * once more. */
void lt_prefault_start(void);

/* This range will soon be written completely: have the kernel populate its pages at once. If that fails, the
 * first accesses do it as usual. */
void lt_prefault_needed(Addr from, SizeT size);

/* Call before each system call. A program that restricts its system calls may be killed for one of ours, so
 * from then on none is made here. */
void lt_prefault_before(UInt number, const UWord *args);
/* May system calls be made that the program did not make itself? */
Bool lt_prefault_may_call(void);

#endif
