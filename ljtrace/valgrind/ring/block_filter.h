/* block_filter.h - which parts of the address space may contain blocks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Most accesses of C programs are to the stack and to static data, and the collector would have to look at
 * each of them only to drop it. So a table with a byte for each 64 KiB of the address space says whether
 * there are or were blocks; addresses that are 4 GiB apart share a byte. Instrumented code looks up the words
 * of a segment, and the segment is recorded only if one of them may be in a block. The filter may record too
 * much, but never too little: the collector decides.
 *
 * LuaJIT's code and code generated at run time are not filtered, because nearly all their accesses are to the
 * heap. Nor is code that was classified as working on blocks (ljtrace/valgrind/instrument/classify.h).
 */
#ifndef LJTRACE_VALGRIND_RING_BLOCK_FILTER_H
#define LJTRACE_VALGRIND_RING_BLOCK_FILTER_H

#include "libvex_ir.h"
#include "pub_tool_basics.h"

/* Accesses share a word if their distance from its first access is at most this: then most are in the same
 * block. */
#define LT_WORD_REACH 32767

/* A block lies here. */
void lt_filter_add(Addr addr, SizeT size);

/* May this address be in a block? */
Bool lt_filter_holds(Addr addr);

/* Add code that looks up an address. Returns an I8 that is not 0 if an access at this address, or within
 * LT_WORD_REACH of it, may be to a block. */
IRExpr *lt_filter_lookup(IRSB *out, IRExpr *addr);

/* The program's own allocator returns this address. If it is in the data of an object file, accesses to
 * constant addresses in such data are recorded from now on. */
void lt_filter_add_own(Addr addr);
/* Is this address in the data of an object file, and no block has been met in such data? */
Bool lt_filter_is_static(Addr addr);

#endif
