/* calls.h - traces that call functions in C. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * What such a function does is done for the line of the call: the interpreter, by whose loads of bytecode
 * lines are known otherwise, has not run for long. A call is a record of two words in the ring; it costs a
 * load and three stores, and only where traces call.
 */
#ifndef LJTRACE_TOOL_LUAJIT_JIT_CALLS_H
#define LJTRACE_TOOL_LUAJIT_JIT_CALLS_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* The superblock ends with the call at ip, in code made at run time; if that is a trace's, emit code that
 * records the call. What the superblock did to memory is in the ring by then. */
void lt_call_emit(IRSB *out, Addr ip);

#endif
