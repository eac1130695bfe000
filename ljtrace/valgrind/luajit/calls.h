/* calls.h - record when a trace calls a C function. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The accesses of the called function belong to the Lua line of the call. In interpreted code the line is
 * known by the loads of bytecode, but while a trace runs there are none. A call is a record of two words in
 * the ring. It costs a load and three stores, and only at the calls of traces.
 */
#ifndef LJTRACE_VALGRIND_LUAJIT_CALLS_H
#define LJTRACE_VALGRIND_LUAJIT_CALLS_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* The superblock ends with the call at ip, in code generated at run time. If that is a trace's code, add code
 * that records the call. The superblock's segment must be in the ring already. */
void lt_call_emit(IRSB *out, Addr ip);

#endif
