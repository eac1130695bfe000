/* leak_scan.h - find the pointers that the program holds when it ends, to detect lost blocks. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The registers of all threads and all readable memory are searched for words that may be pointers to blocks
 * of malloc or of custom heaps. The collector, which knows the blocks, receives these pointers and finds the
 * blocks that cannot be reached (memtrace/blocks/reach.h). Of a stack, only the part in use is searched; of
 * other memory, only pages that exist. The search runs after the program's last instruction and does not
 * change its memory.
 */
#ifndef LJTRACE_TOOL_SESSION_LEAK_SCAN_H
#define LJTRACE_TOOL_SESSION_LEAK_SCAN_H

#include "pub_tool_basics.h"

/* The lowest and the highest address of a block of these heaps so far. */
extern Addr lt_leak_scan_lowest, lt_leak_scan_highest;

/* Extend the range by a new block. */
static inline void lt_leak_scan_block(Addr addr, SizeT size)
{
    if (addr < lt_leak_scan_lowest)
        lt_leak_scan_lowest = addr;
    if (addr + size > lt_leak_scan_highest)
        lt_leak_scan_highest = addr + size;
}

/* A thread ends, by itself or because the program ends. */
void lt_leak_scan_thread_ends(ThreadId tid);
/* A mapping is gone, with the stacks that were in it. */
void lt_leak_scan_unmapped(Addr addr, SizeT size);
/* Search all memory. The program has ended; `tid` is the thread that ended it. */
void lt_leak_scan_finish(ThreadId tid);

#endif
