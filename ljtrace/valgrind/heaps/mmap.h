/* mmap.h - record mappings as blocks: mmap, munmap, mremap, brk; find out whether an allocator is not recorded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_HEAPS_MMAP_H
#define LJTRACE_VALGRIND_HEAPS_MMAP_H

#include "pub_tool_basics.h"

/* Call before each system call of the program. */
void lt_mmap_before(UInt number, const UWord *args);
/* Call after it. result: the kernel's, that is, negative if it is an errno. */
void lt_mmap_after(ThreadId tid, UInt number, const UWord *args, Long result);

/* At the end of the program: if it mapped memory but hardly any block is recorded, because its allocator is neither
 * replaced nor observed, write a warning, and facts into the trace. */
void lt_unseen_finish(void);

#endif
