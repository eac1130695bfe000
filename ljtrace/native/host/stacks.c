/* stacks.c - C stacks for the code that is shared with the tool (see ljtrace/tool/stacks/unwind.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/host/registers.h"
#include "ljtrace/native/inside/native.h"
#include "ljtrace/native/unwind/unwind.h"
#include "ljtrace/tool/base/guest_memory.h"
#include "ljtrace/tool/base/options.h"
#include "ljtrace/tool/stacks/unwind.h"
#include <dlfcn.h>

static Bool is_in_object(Addr ip)
{
    struct dl_find_object found;
    return _dl_find_object((void *)ip, &found) == 0;
}

Bool lt_is_run_time_code(Addr ip)
{
    return !is_in_object(ip) && lt_guest_readable(ip, 1);
}

static Bool (*s_name_run_time_code)(Addr ip); /* NULL = it has no names */

void lt_run_time_code_named_by(Bool (*name)(Addr ip))
{
    s_name_run_time_code = name;
}

static UInt s_generation;

void lt_forget_frames(void)
{
    s_generation++;
}

UInt lt_frames_generation(void)
{
    return s_generation;
}

/* Name the new frames. The stack ends at the first that is in no object: code generated at run time has no unwind
 * information, and what is not even readable is no code. */
static void name_from(struct lt_stack *stack, UInt first, UInt found)
{
    UInt i = first;
    stack->in_run_time_code = False;
    for (; i < first + found && !stack->in_run_time_code; i++) {
        if (is_in_object(stack->ips[i]))
            native_name(stack->ips[i]);
        else if (lt_is_run_time_code(stack->ips[i]))
            stack->in_run_time_code = True;
        else
            break;
    }
    stack->depth = i;
    if (stack->in_run_time_code && s_name_run_time_code)
        s_name_run_time_code(stack->ips[i - 1]);
}

static void extend(struct lt_stack *stack, const struct native_registers *from, UInt most)
{
    const UInt first = stack->depth;
    bool lost;
    const UInt found = native_unwind_from(from, false, (uint64_t *)stack->ips + first,
                                          (uint64_t *)stack->sps + first, most, &lost);
    name_from(stack, first, found);
    stack->lost = !stack->in_run_time_code && (lost || stack->depth < first + found);
}

void lt_take_stack_to(ThreadId tid, struct lt_stack *stack, UInt limit)
{
    struct native_registers at = {host_registers.guest_RIP, host_registers.guest_RSP,
                                  host_registers.guest_RBP};
    (void)tid;
    stack->id = stack->depth = 0;
    stack->in_run_time_code = stack->lost = False;
    if (limit && host_at_entry) {
        stack->ips[0] = at.ip;
        stack->sps[0] = at.sp;
        name_from(stack, 0, 1);
        at.ip = *(const Addr *)at.sp - 1;
        at.sp += sizeof(Addr);
    }
    if (stack->depth < limit)
        extend(stack, &at, limit - stack->depth);
}

/* One frame more than recorded is requested, to know whether the stack has more. */
void lt_take_stack(ThreadId tid, struct lt_stack *stack)
{
    const UInt limit = (UInt)lt_options.stack_depth;
    lt_take_stack_to(tid, stack, limit ? limit + 1 : 0);
    if (stack->depth > limit)
        stack->ips[limit] = RAW_CUT;
    else if (stack->lost && stack->depth)
        stack->ips[stack->depth++] = RAW_UNKNOWN_CALLER;
}

void lt_resume_stack(ThreadId tid, struct lt_stack *stack, Addr sp)
{
    Addr saved[2];
    UInt limit = (UInt)lt_options.stack_depth + 1;
    (void)tid;
    if (stack->depth >= limit || !lt_guest_read(sp - sizeof saved, saved, sizeof saved))
        return;
    extend(stack, &(struct native_registers){saved[1] - 1, sp, saved[0]}, limit - stack->depth);
}
