/* guest_memory.h - reading the program's memory where it may not be. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Everything the tool reads of LuaJIT's structures goes through here: a pointer that is not what it is taken
 * for gives zero, never a fault. So do texts that a program names in requests and system calls.
 */
#ifndef LJTRACE_TOOL_BASE_GUEST_MEMORY_H
#define LJTRACE_TOOL_BASE_GUEST_MEMORY_H

#include "pub_tool_basics.h"

enum { LT_PEEK_PAGE_BITS = 12, LT_PEEK_PAGES = 256 };

/* Numbers of pages known to be readable, and 1 more, each in the slot of its low bits; 0 = none. */
extern UWord lt_peek_pages[LT_PEEK_PAGES];

/* What the program may read changes only in system calls: call this whenever its code runs on. */
void lt_peek_forget(void);
/* How often that has been: what was found readable is so until it changes. */
extern UInt lt_peek_turn;
Bool lt_readable(Addr a, SizeT n);
/* An address in a page known to be readable, so that n bytes lie in it. */
static inline Bool lt_peek_is_known(Addr a, UInt n)
{
    UWord page = a >> LT_PEEK_PAGE_BITS;
    return lt_peek_pages[page % LT_PEEK_PAGES] == page + 1 &&
           (a & ((1 << LT_PEEK_PAGE_BITS) - 1)) + n <= 1 << LT_PEEK_PAGE_BITS;
}
/* Copy; False, and nothing copied, if it can not all be read. */
Bool lt_peek(Addr a, void *to, SizeT n);
/* How many bytes of a text can be read: up to the zero behind it, to the first byte that is not there, or
 * `most`. */
SizeT lt_peek_length(Addr a, SizeT most);
/* Copy a text, cut to fit into `room` bytes with the zero behind it, and return its length: 0 at a bad
 * address. */
SizeT lt_peek_text(Addr a, HChar *to, SizeT room);
/* An unsigned number of `size` bytes; 0 if it can not be read. */
ULong lt_peek_number_slowly(Addr a, UInt size);
static inline ULong lt_peek_number(Addr a, UInt size)
{
    if (!lt_peek_is_known(a, size))
        return lt_peek_number_slowly(a, size);
    if (size == 8) /* the most frequent first */
        return *(const ULong *)a;
    if (size == 4)
        return *(const UInt *)a;
    return size == 1 ? *(const UChar *)a : *(const UShort *)a;
}

#endif
