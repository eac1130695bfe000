/* unwind.h - C call stacks of heap events, and the names of their frames.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool only unwinds. Each event carries raw code addresses, and the collector makes stacks of them. The
 * name of a code address (RAW_FRAME) is written before the address is first used. The addresses named are
 * kept in a cache of fixed size; if one is evicted it is named again, which is harmless.
 *
 * host_unwind is declared in ljtrace/luajit/host.h; c_stack_take calls it.
 */
#ifndef LJTRACE_VALGRIND_STACKS_UNWIND_H
#define LJTRACE_VALGRIND_STACKS_UNWIND_H

#include "ljtrace/luajit/base/call_stack.h"
#include "pub_tool_basics.h"

/* Is the address in executable memory that belongs to no object? */
Bool lt_is_run_time_code(Addr ip);
/* Write the names of RAW_CUT and RAW_UNKNOWN_CALLER. */
void lt_name_cut(void);
/* Write the name of a code address. */
void lt_name_frame(Addr ip);
/* Code was mapped or unmapped: forget the names, since they may have changed. */
void lt_forget_frames(void);

/* Code that was made at run time is named by f, which returns false if it does not know the code. */
void lt_run_time_code_named_by(bool (*f)(uint64_t ip));

#endif
