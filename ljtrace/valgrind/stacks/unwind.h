/* unwind.h - C call stacks of heap events, and the names of their frames. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool only unwinds. Each event carries raw code addresses, and the collector makes stacks of them. The
 * name of a code address (RAW_FRAME) is written before the address is first used. The addresses named are
 * kept in a cache of fixed size; if one is evicted it is named again, which is harmless.
 */
#ifndef LJTRACE_VALGRIND_STACKS_UNWIND_H
#define LJTRACE_VALGRIND_STACKS_UNWIND_H

#include "ljtrace/luajit/base/call_stack.h"
#include "pub_tool_basics.h"

/* Unwind the stack of thread tid and name its frames. If it has more than --stack-depth frames, it is cut there and ends
 * with RAW_CUT. If not all callers can be found, it ends with RAW_UNKNOWN_CALLER. */
void lt_take_stack(ThreadId tid, struct lt_stack *stack);
/* The same with at most `limit` frames, not marked as cut, and only as far as call frame information leads: the stack
 * ends at the first frame in code generated at run time (by a JIT compiler). */
void lt_take_stack_to(ThreadId tid, struct lt_stack *stack, UInt limit);
/* Continue after the last frame of the stack, up to one frame more than --stack-depth. The next frame is one whose
 * caller's stack pointer is `sp`: its return address and the saved frame pointer are just below that. */
void lt_resume_stack(ThreadId tid, struct lt_stack *stack, Addr sp);
/* Is the address in executable memory that belongs to no object? */
Bool lt_is_run_time_code(Addr ip);
/* Write the names of RAW_CUT and RAW_UNKNOWN_CALLER. */
void lt_name_cut(void);
/* Write the name of a code address. */
void lt_name_frame(Addr ip);
/* Code was mapped or unmapped: forget the names, since they may have changed. */
void lt_forget_frames(void);
/* How often lt_forget_frames was called. */
UInt lt_frames_generation(void);

/* Code that was made at run time is named by f, which returns false if it does not know the code. */
void lt_run_time_code_named_by(bool (*f)(uint64_t ip));

#endif
