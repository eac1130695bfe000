/* call_stack.h - the call stack of an event. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_BASE_CALL_STACK_H
#define LJTRACE_TOOL_BASE_CALL_STACK_H

#include "pub_tool_basics.h"

#define LT_MAX_DEPTH 200

/* A call stack. */
struct lt_stack {
    /* The number by which the collector knows it (RAW_STACK); 0 = none. */
    UInt id;
    UInt depth;
    /* The last frame is in code that was generated at run time. */
    Bool in_run_time_code;
    Addr ips[LT_MAX_DEPTH]; /* innermost first */
    Addr sps[LT_MAX_DEPTH]; /* the stack pointer of each frame */
};

#endif
