/* callers.h - step from a frame to its caller. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Valgrind's own unwinder goes on where it has no call frame information: by rbp, whatever that contains, and by the word
 * at the stack pointer. Here each step is by call frame information or is checked (frames/frame_pointer.h), and a stack
 * that ends too early says so.
 */
#ifndef LJTRACE_VALGRIND_STACKS_CALLERS_H
#define LJTRACE_VALGRIND_STACKS_CALLERS_H

#include "pub_tool_basics.h"

/* The registers of a frame. ip: the address of an instruction in it, as in native/unwind.h. */
struct lt_frame {
    Addr ip, sp, bp;
};

/* Memory that contains a stack, all of it readable. */
struct lt_stack_memory {
    Addr from, to;
};

enum lt_step {
    LT_STEP_KNOWN,     /* by call frame information */
    LT_STEP_PLAUSIBLE, /* by the frame pointer */
    LT_STEP_OUTERMOST, /* there is no caller */
    LT_STEP_LOST       /* there is one, which cannot be found */
};

/* Step from *frame to its caller, if there is one. memory: that of the frame. From a handler of a signal that has a stack of
 * its own, the step leads to another one. */
enum lt_step lt_step_to_caller(struct lt_frame *frame, const struct lt_stack_memory *memory);

#endif
