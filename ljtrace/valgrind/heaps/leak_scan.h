/* leak_scan.h - find the pointers that the program holds when it ends, to detect lost blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The registers of all threads and all readable memory are searched for words that may be pointers to blocks
 * of malloc or of custom heaps. The collector, which knows the blocks, receives these pointers and finds the
 * blocks that cannot be reached (memtrace/blocks/block_graph.h). Of a stack, only the part in use is searched; of
 * other memory, only pages that exist. The search runs after the program's last instruction and does not
 * change its memory.
 */
#ifndef LJTRACE_VALGRIND_HEAPS_LEAK_SCAN_H
#define LJTRACE_VALGRIND_HEAPS_LEAK_SCAN_H

#include "pub_tool_basics.h"

/* A thread ends, by itself or because the program ends. */
void lt_leak_scan_thread_ends(ThreadId tid);
/* A mapping is gone, with the stacks that were in it. */
void lt_leak_scan_unmapped(Addr addr, SizeT size);
/* Search all memory. The program has ended; `tid` is the thread that ended it. */
void lt_leak_scan_finish(ThreadId tid);

#endif
