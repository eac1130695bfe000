/* lt_peek.h - reading the program's memory where it may not be. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Everything the tool reads of LuaJIT's structures goes through here: a pointer that is not what it is taken
 * for gives zero, never a fault.
 */
#ifndef LT_PEEK_H
#define LT_PEEK_H

#include "pub_tool_basics.h"

/* What the program may read changes only in system calls: call this whenever its code runs on. */
void lt_peek_forget(void);
Bool lt_readable(Addr a, SizeT n);
/* Copy; False, and nothing copied, if it can not all be read. */
Bool lt_peek(Addr a, void *to, SizeT n);
/* An unsigned number of `size` bytes; 0 if it can not be read. */
ULong lt_peek_number(Addr a, UInt size);

#endif
