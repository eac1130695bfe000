/* call_stack.h - the call stack of an event.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_BASE_CALL_STACK_H
#define LJTRACE_LUAJIT_BASE_CALL_STACK_H

#include "ljtrace/protocol/recording.h"

#include <stdbool.h>
#include <stdint.h>

/* The highest value of --stack-depth. */
#define LT_MAX_DEPTH RECORDING_MOST_FRAMES
/* One more, by which a stack that has to be cut is recognised. */
#define LT_MOST_FRAMES (LT_MAX_DEPTH + 1)

/* A call stack. */
struct lt_stack {
    /* The number by which the collector knows it (RAW_NODE); 0 = none. */
    uint32_t id;
    uint32_t depth;
    /* The last frame is in code that was generated at run time. */
    bool in_run_time_code;
    /* It has a caller that cannot be found. */
    bool lost;
    uint64_t ips
        [LT_MOST_FRAMES]; /* innermost first; RAW_CUT or RAW_UNKNOWN_CALLER at the end of a stack that has more frames */
    uint64_t sps[LT_MOST_FRAMES]; /* the stack pointer of each frame */
};

/* Take the C stack of a thread. If it has more frames than --stack-depth, it is cut there and ends with RAW_CUT. If not
 * all callers can be found, it ends with RAW_UNKNOWN_CALLER. */
void c_stack_take(uint32_t thread, struct lt_stack *stack);
/* The same with at most `limit` frames, not marked as cut, and only as far as is certain (host_unwind). */
void c_stack_take_certain(uint32_t thread, struct lt_stack *stack, uint32_t limit);
/* Continue after the last frame of the stack, up to one frame more than --stack-depth. The next frame is one whose
 * caller's stack pointer is `sp`: its return address and the saved frame pointer are just below that. */
void c_stack_continue(uint32_t thread, struct lt_stack *stack, uint64_t sp);

#endif
