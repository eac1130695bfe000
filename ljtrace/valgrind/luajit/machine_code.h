/* machine_code.h - discard only the translations of machine code that LuaJIT has changed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_VALGRIND_LUAJIT_MACHINE_CODE_H
#define LJTRACE_VALGRIND_LUAJIT_MACHINE_CODE_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* Call before each system call of the program. */
void lt_mcode_before(ThreadId tid, UInt number, const UWord *args);
/* Call when it has returned. */
void lt_mcode_after(Long result);

/* -- calls of C functions -- */

/* The accesses of the called function belong to the Lua line of the call. In interpreted code the line is
 * known by the loads of bytecode, but while a trace runs there are none. A call is a record of two words in
 * the ring. It costs a load and three stores, and only at the calls of traces. */

/* The superblock ends with the call at ip, in code generated at run time. If that is a trace's code, add code
 * that records the call. The superblock's segment must be in the ring already. */
void lt_call_emit(IRSB *out, Addr ip);

#endif
