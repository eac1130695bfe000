/* stacks.c - C stacks for the reader of LuaJIT (ljtrace/luajit/host.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/inside/host/stacks.h"
#include "ljtrace/luajit/base/guest_memory.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/native/inside/host/registers.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/unwind/unwind.h"
#include <dlfcn.h>

static bool is_in_object(uint64_t ip)
{
    struct dl_find_object found;
    return _dl_find_object((void *)ip, &found) == 0;
}

static bool is_run_time_code(uint64_t ip)
{
    return !is_in_object(ip) && lt_guest_readable(ip, 1);
}

static uint32_t s_generation;

void host_forget_frames(void)
{
    s_generation++;
}

uint32_t host_code_generation(void)
{
    return s_generation;
}

/* Name the new frames. The stack ends at the first that is in no object: code generated at run time has no unwind
 * information, and what is not even readable is no code. */
static void name_from(struct lt_stack *stack, uint32_t first, uint32_t found)
{
    uint32_t i = first;
    stack->in_run_time_code = false;
    for (; i < first + found && !stack->in_run_time_code; i++) {
        if (is_in_object(stack->ips[i]))
            native_name(stack->ips[i]);
        else if (is_run_time_code(stack->ips[i]))
            stack->in_run_time_code = true;
        else
            break;
    }
    stack->depth = i;
    if (stack->in_run_time_code)
        lt_trace_name_access(stack->ips[i - 1]);
}

static void extend(struct lt_stack *stack, const struct native_registers *from, uint32_t most)
{
    const uint32_t first = stack->depth;
    bool lost;
    const uint32_t found = native_unwind_from(from, false, (uint64_t *)stack->ips + first,
                                              (uint64_t *)stack->sps + first, most, &lost);
    name_from(stack, first, found);
    stack->lost = !stack->in_run_time_code && (lost || stack->depth < first + found);
}

void host_take_stack_to(uint32_t tid, struct lt_stack *stack, uint32_t limit)
{
    struct native_registers at = {event_ip, event_registers[HOST_RSP], event_registers[HOST_RBP]};
    (void)tid;
    stack->id = stack->depth = 0;
    stack->in_run_time_code = stack->lost = false;
    if (limit && event_at_entry) {
        stack->ips[0] = at.ip;
        stack->sps[0] = at.sp;
        name_from(stack, 0, 1);
        at.ip = *(const uint64_t *)at.sp - 1;
        at.sp += sizeof(uint64_t);
    }
    if (stack->depth < limit)
        extend(stack, &at, limit - stack->depth);
}

/* One frame more than recorded is requested, to know whether the stack has more. */
void host_take_stack(uint32_t tid, struct lt_stack *stack)
{
    const uint32_t limit = native_options.depth;
    host_take_stack_to(tid, stack, limit ? limit + 1 : 0);
    if (stack->depth > limit)
        stack->ips[limit] = RAW_CUT;
    else if (stack->lost && stack->depth)
        stack->ips[stack->depth++] = RAW_UNKNOWN_CALLER;
}

void host_resume_stack(uint32_t tid, struct lt_stack *stack, uint64_t sp)
{
    uint64_t saved[2];
    uint32_t limit = native_options.depth + 1;
    (void)tid;
    if (stack->depth >= limit || !lt_guest_read(sp - sizeof saved, saved, sizeof saved))
        return;
    extend(stack, &(struct native_registers){saved[1] - 1, sp, saved[0]}, limit - stack->depth);
}
