/* guest_memory.h - read the program's memory, which may not be readable. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool reads all structures of LuaJIT by these functions: if a pointer is not what the tool assumes, the
 * result is zero and not a fault. They are also used for texts in requests and system calls.
 */
#ifndef LJTRACE_LUAJIT_BASE_GUEST_MEMORY_H
#define LJTRACE_LUAJIT_BASE_GUEST_MEMORY_H

#include "pub_tool_basics.h"

enum { LT_GUEST_PAGE_BITS = 12, LT_GUEST_PAGES = 256 };

/* A cache of readable pages: the page's number + 1, indexed by its low bits; 0 = none. */
extern UWord lt_guest_pages[LT_GUEST_PAGES];

/* Forget which memory is readable. It changes only in system calls, so call this whenever the program's code
 * has run. */
void lt_guest_forget(void);
/* How often that was called: memory found readable is readable as long as this number is the same. */
extern UInt lt_guest_turn;
/* A pointer is only a guess: do not rely on what was found earlier about its page, if that may have changed. */
void lt_guest_doubt(Addr a);
/* Is this range readable? */
Bool lt_guest_readable(Addr a, SizeT n);
/* Are these n bytes in one page that is known to be readable? */
static inline Bool lt_guest_is_known(Addr a, UInt n)
{
    UWord page = a >> LT_GUEST_PAGE_BITS;
    return lt_guest_pages[page % LT_GUEST_PAGES] == page + 1 &&
           (a & ((1 << LT_GUEST_PAGE_BITS) - 1)) + n <= 1 << LT_GUEST_PAGE_BITS;
}
/* Copy from the program's memory. Returns false, and copies nothing, if not all of it is readable. */
Bool lt_guest_read(Addr a, void *to, SizeT n);
/* The length of a text: up to its terminating zero, to the first byte that is not readable, or `most`. */
SizeT lt_guest_length(Addr a, SizeT most);
/* Copy a text, cut to fit into `room` bytes with its terminating zero. Returns its length; 0 at a bad
 * address. */
SizeT lt_guest_text(Addr a, HChar *to, SizeT room);
/* Read an unsigned number of `size` bytes; 0 if it is not readable. */
ULong lt_guest_number_slowly(Addr a, UInt size);
/* The same, and fast if the page is known. */
static inline ULong lt_guest_number(Addr a, UInt size)
{
    if (!lt_guest_is_known(a, size))
        return lt_guest_number_slowly(a, size);
    if (size == 8) /* the most frequent size first */
        return *(const ULong *)a;
    if (size == 4)
        return *(const UInt *)a;
    return size == 1 ? *(const UChar *)a : *(const UShort *)a;
}

#endif
