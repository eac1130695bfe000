/* lt_transfers.h - what system calls read of the program's memory, where the core tells it inexactly. (host
 * side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LT_TRANSFERS_H
#define LT_TRANSFERS_H

#include "pub_tool_basics.h"

/* Around each system call; the result is the kernel's: negative, an errno. What is read is told to lt_touch.
 */
void lt_transfers_before(UInt number, const UWord *args);
void lt_transfers_after(UInt number, const UWord *args, Long result);

/* Is this, which the core says is read by the call that begins, told here? */
Bool lt_transfers_tell(Addr addr, SizeT size);

#endif
