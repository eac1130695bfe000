/* block_filter.h - which parts of the address space may hold blocks. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Most accesses of C programs are to the stack and to static data, and the collector would have to look at
 * each to throw it away. A table with a byte for each 64 KiB says where blocks are or were; parts of the
 * address space that are 4 GiB apart share a byte. Instrumented code looks up the words of a segment and
 * leaves the segment in the ring, or has it put there, only if one of them may be a block's. It errs on the
 * safe side only: the collector decides.
 *
 * LuaJIT's code, and code made at run time, is not filtered: nearly all it does is to the heap. Nor is code
 * that was seen to work on blocks (ljtrace/tool/instrument/classify.h).
 */
#ifndef LJTRACE_TOOL_RING_BLOCK_FILTER_H
#define LJTRACE_TOOL_RING_BLOCK_FILTER_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"

/* A block lies here. */
void lt_filter_add(Addr addr, SizeT size);

/* May this address be a block's? */
Bool lt_filter_holds(Addr addr);

/* Code that looks an address up: an I8 that is not 0 if an access there, or within LT_WORD_REACH, may be a
 * block's. */
IRExpr *lt_filter_lookup(IRSB *out, IRExpr *addr);

#endif
