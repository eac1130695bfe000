/* lt_mcode.h - LuaJIT's machine code, of which a change discards what has changed. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LT_MCODE_H
#define LT_MCODE_H

#include "pub_tool_basics.h"

/* Every system call of the program. */
void lt_mcode_before(ThreadId tid, UInt number, const UWord *args);
void lt_mcode_after(Long result);

#endif
