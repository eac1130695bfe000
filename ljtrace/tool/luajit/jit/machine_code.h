/* machine_code.h - LuaJIT's machine code, of which a change discards what has changed. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_LUAJIT_JIT_MACHINE_CODE_H
#define LJTRACE_TOOL_LUAJIT_JIT_MACHINE_CODE_H

#include "pub_tool_basics.h"

/* Every system call of the program. */
void lt_mcode_before(ThreadId tid, UInt number, const UWord *args);
void lt_mcode_after(Long result);

#endif
