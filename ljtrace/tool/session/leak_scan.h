/* leak_scan.h - the pointers that the program has when it ends, for the search of lost blocks. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * All memory that the program can read and its threads' registers are looked through for words that may be
 * pointers to blocks of malloc or of custom heaps. They go to the collector, which knows the blocks and finds
 * those that cannot be reached (memtrace/blocks/reach.h). Of a thread's stack only what is in use counts, of other
 * memory only pages that exist. It is the program that ended that is looked at, so nothing of it changes.
 */
#ifndef LJTRACE_TOOL_SESSION_LEAK_SCAN_H
#define LJTRACE_TOOL_SESSION_LEAK_SCAN_H

#include "pub_tool_basics.h"

/* Lowest and highest address of such a block so far. */
extern Addr lt_reach_lowest, lt_reach_highest;

/* There is a block that is to be reached. */
static inline void lt_reach_block(Addr addr, SizeT size)
{
    if (addr < lt_reach_lowest)
        lt_reach_lowest = addr;
    if (addr + size > lt_reach_highest)
        lt_reach_highest = addr + size;
}

/* A thread ends: by itself, or because the program does. */
void lt_reach_thread_ends(ThreadId tid);
/* Memory is gone, with the stacks that were in it. */
void lt_reach_unmapped(Addr addr, SizeT size);
/* The program has ended; `tid` is the thread that ended it. */
void lt_reach_finish(ThreadId tid);

#endif
