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

/* Accesses share a word if their distance from its first access is at most this: then most are in the same
 * block. */
#define LT_WORD_REACH 32767

/* A block lies here. */
void lt_filter_add(Addr addr, SizeT size);

/* May this address be a block's? */
Bool lt_filter_holds(Addr addr);

/* Code that looks an address up: an I8 that is not 0 if an access there, or within LT_WORD_REACH, may be a
 * block's. */
IRExpr *lt_filter_lookup(IRSB *out, IRExpr *addr);

/* The program's own allocator returns this address. If it is in the data of an object file, accesses to
 * constant addresses in such data are recorded from now on. */
void lt_filter_add_own(Addr addr);
/* Is this address in the data of an object file, and no block has been met in such data? */
Bool lt_filter_is_static(Addr addr);

#endif
