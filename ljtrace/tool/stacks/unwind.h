/* unwind.h - call stacks of heap events and the names of their frames. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The tool only unwinds; the raw code addresses travel with each event and the collector makes stacks of
 * them. A code address is named (RAW_FRAME) before it is first used. Which were named is kept in a small
 * cache of fixed size: naming one twice is harmless.
 */
#ifndef LJTRACE_TOOL_STACKS_UNWIND_H
#define LJTRACE_TOOL_STACKS_UNWIND_H

#include "pub_tool_basics.h"

#define LT_MAX_DEPTH 200

struct lt_stack {
    UInt id; /* the collector knows it by this number (RAW_STACK); 0 = it has none */
    UInt depth;
    Bool in_run_time_code;  /* the last frame is in code made at run time */
    Addr ips[LT_MAX_DEPTH]; /* innermost first */
    Addr sps[LT_MAX_DEPTH]; /* the stack pointer in each */
};

/* Unwind thread tid's stack, at most --stack-depth frames, and name its frames. Ends with the first
 * frame in code made at run time (a JIT's). */
void lt_take_stack(ThreadId tid, struct lt_stack *stack);
/* The same, at most `limit` frames; none if --stack-depth is 0. */
void lt_take_stack_to(ThreadId tid, struct lt_stack *stack, UInt limit);
/* Go on behind the stack's end: there is a frame whose caller's stack pointer is `sp`, with the return
 * address and the saved frame pointer just below. */
void lt_resume_stack(ThreadId tid, struct lt_stack *stack, Addr sp);
/* Is the address in code that belongs to no object? */
Bool lt_is_run_time_code(Addr ip);
/* Name one code address. */
void lt_name_frame(Addr ip);
/* Code was mapped or unmapped: what was named may mean something else now. */
void lt_forget_frames(void);
/* An object file with source lines was mapped: see that the collector finds them. Waits until it has the file. */
void lt_object_mapped(const HChar *path);
/* How often that has been. */
UInt lt_frames_generation(void);

#endif
