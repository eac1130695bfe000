/* pools.h - heaps that the program declares: custom allocators and pools.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * They are declared by Valgrind's client requests (MALLOCLIKE_BLOCK and similar ones, memory pools) and by
 * those of ljtrace.h.
 */
#ifndef LJTRACE_VALGRIND_HEAPS_POOLS_H
#define LJTRACE_VALGRIND_HEAPS_POOLS_H

#include "pub_tool_basics.h"

/* Call at the start. */
void lt_pools_init(void);
/* Handle a client request. Returns false if it is not about pools or blocks. */
Bool lt_pools_request(ThreadId tid, const UWord *args, UWord *ret);

#endif
