/* call_stack.c - C stacks, as the host unwinds them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/host.h"

void c_stack_take_certain(uint32_t thread, struct lt_stack *stack, uint32_t limit)
{
    stack->id = stack->depth = 0;
    host_unwind(thread, NULL, true, limit, stack);
}

/* One frame more than recorded is requested, to know whether the stack has more. */
void c_stack_take(uint32_t thread, struct lt_stack *stack)
{
    const uint32_t limit = luajit_options.stack_depth;
    stack->id = stack->depth = 0;
    host_unwind(thread, NULL, false, limit ? limit + 1 : 0, stack);
    if (stack->depth > limit)
        stack->ips[limit] = RAW_CUT;
    else if (stack->lost && stack->depth)
        stack->ips[stack->depth++] = RAW_UNKNOWN_CALLER;
}

void c_stack_continue(uint32_t thread, struct lt_stack *stack, uint64_t sp)
{
    uint64_t saved[2];
    const uint32_t limit = luajit_options.stack_depth + 1;
    if (stack->depth >= limit || !program_read(sp - sizeof saved, saved, sizeof saved) ||
        !program_readable(sp, sizeof sp))
        return;
    const struct host_frame there = {saved[1] - 1, sp, saved[0]};
    host_unwind(thread, &there, true, limit - stack->depth, stack);
}
