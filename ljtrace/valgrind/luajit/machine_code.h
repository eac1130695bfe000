/* machine_code.h - discard only the translations of machine code that LuaJIT has changed. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_LUAJIT_MACHINE_CODE_H
#define LJTRACE_VALGRIND_LUAJIT_MACHINE_CODE_H

#include "pub_tool_basics.h"

/* Call before each system call of the program. */
void lt_mcode_before(ThreadId tid, UInt number, const UWord *args);
/* Call when it has returned. */
void lt_mcode_after(Long result);

#endif
