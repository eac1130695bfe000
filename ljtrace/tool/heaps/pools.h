/* pools.h - heaps that the program declares: custom allocators and pools. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * By Valgrind's requests (MALLOCLIKE and its like, memory pools) and ljtrace.h's.
 */
#ifndef LJTRACE_TOOL_HEAPS_POOLS_H
#define LJTRACE_TOOL_HEAPS_POOLS_H

#include "pub_tool_basics.h"

void lt_pools_init(void);
/* A client request: False if it is none of pools. */
Bool lt_pools_request(ThreadId tid, const UWord *args, UWord *ret);

#endif
