/* unwind.c - walk the stack. (see unwind.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A walk follows three registers, which is enough for nearly all frames: rip, rsp and rbp. For a frame with rules that
 * need more (those of a signal, of the dynamic linker, of hand-written code), all registers are computed. If one of them
 * was lost on the way, the walk begins anew inside this function, where all are known, and follows all.
 *
 * Start reading at native_unwind.
 */
#include "ljtrace/native/unwind.h"
#include "ljtrace/native/eh_expression.h"
#include "ljtrace/native/frame_rules.h"
#include "ljtrace/native/stack_memory.h"
#include <stdbool.h>

enum { THREE = 1u << EH_RIP | 1u << EH_RSP | 1u << EH_RBP };
enum { ROUNDS = 16 }; /* at most so many frames of this file lie below the caller's */

/* What became of a step to the caller. */
enum step { STEP_DONE, STEP_ENDED /* no caller, or none that can be found */, STEP_UNKNOWN_REGISTER };

struct walk {
    uint64_t *ips, *sps;
    uint32_t n, most;
    struct stack_memory memory;
};

/* A register of the caller, as its rule says. False: it cannot be known. */
static bool restore(struct walk *w, const struct eh_rule *rule, const struct eh_registers *r, uint64_t cfa,
                    struct eh_bytes expression, uint64_t *value)
{
    switch (rule->how) {
    case EH_SAVED:
        return stack_memory_read(&w->memory, cfa + (uint64_t)(int64_t)rule->offset, value);
    case EH_VALUE:
        *value = cfa + (uint64_t)(int64_t)rule->offset;
        return true;
    case EH_IN_REGISTER:
        *value = rule->reg < EH_REGISTERS ? r->value[rule->reg] : 0;
        return rule->reg < EH_REGISTERS && (r->known >> rule->reg & 1);
    case EH_SAVED_AT:
        return eh_evaluate(expression, r, &w->memory, &cfa, value) &&
               stack_memory_read(&w->memory, *value, value);
    case EH_COMPUTED:
        return eh_evaluate(expression, r, &w->memory, &cfa, value);
    default:
        return false;
    }
}

static bool find_cfa(struct walk *w, const struct eh_rule *rule, const struct eh_registers *r,
                     struct eh_bytes expression, uint64_t *cfa)
{
    if (rule->how == EH_COMPUTED)
        return eh_evaluate(expression, r, &w->memory, NULL, cfa);
    *cfa = r->value[rule->reg] + (uint64_t)(int64_t)rule->offset;
    return r->known >> rule->reg & 1;
}

static struct eh_bytes expression_of(const struct eh_sections *s, const struct eh_rule *rule)
{
    return (struct eh_bytes){s->frames_begin + rule->offset, s->frames_end, false};
}

/* Step to the caller with all registers, by the rules as they are written. */
static __attribute__((noinline)) enum step step_with_all(struct walk *w, struct eh_registers *r)
{
    struct eh_rules rules;
    struct eh_sections s;
    struct eh_registers caller = *r;
    uint64_t cfa;
    if (!frame_full_rules(r->value[EH_RIP], &rules, &s) ||
        rules.registers[rules.return_address].how == EH_UNDEFINED)
        return STEP_ENDED;
    if (!find_cfa(w, &rules.cfa, r, expression_of(&s, &rules.cfa), &cfa))
        return STEP_UNKNOWN_REGISTER;
    for (unsigned i = 0; i < EH_REGISTERS; i++) {
        const struct eh_rule *rule = &rules.registers[i];
        const bool has_expression = rule->how == EH_SAVED_AT || rule->how == EH_COMPUTED;
        const struct eh_bytes expression = has_expression ? expression_of(&s, rule) : (struct eh_bytes){0};
        if (rule->how == EH_SAME)
            continue;
        caller.known &= ~(1u << i);
        if (restore(w, rule, r, cfa, expression, &caller.value[i]))
            caller.known |= 1u << i;
    }
    if (!(caller.known >> EH_RSP & 1) || !(caller.known >> rules.return_address & 1))
        return r->known & (1u << EH_RBX) ? STEP_ENDED : STEP_UNKNOWN_REGISTER;
    const uint64_t back = caller.value[rules.return_address];
    if (back == 0 || (caller.value[EH_RSP] <= r->value[EH_RSP] && !rules.is_signal_frame))
        return STEP_ENDED;
    caller.value[EH_RIP] = rules.is_signal_frame ? back : back - 1;
    caller.known |= 1u << EH_RIP;
    *r = caller;
    return STEP_DONE;
}

static void add_frame(struct walk *w, uint64_t ip, uint64_t sp)
{
    w->ips[w->n] = ip;
    w->sps[w->n++] = sp;
}

/* Walk on with all registers, from a frame that is not yet in the stack. */
static void walk_with_all(struct walk *w, struct eh_registers *r)
{
    while (w->n < w->most) {
        add_frame(w, r->value[EH_RIP], r->value[EH_RSP]);
        if (step_with_all(w, r) != STEP_DONE)
            return;
    }
}

/* The registers here. All that a caller expects to be unchanged are known. */
static inline __attribute__((always_inline)) void get_registers(struct eh_registers *r)
{
    __asm__ volatile("leaq 0f(%%rip), %%rax\n"
                     "0: movq %%rax, 128(%0)\n"
                     "movq %%rbx, 24(%0)\n"
                     "movq %%rbp, 48(%0)\n"
                     "movq %%rsp, 56(%0)\n"
                     "movq %%r12, 96(%0)\n"
                     "movq %%r13, 104(%0)\n"
                     "movq %%r14, 112(%0)\n"
                     "movq %%r15, 120(%0)\n"
                     :
                     : "r"(r->value)
                     : "rax", "memory");
    r->known = THREE | 1u << EH_RBX | 0xfu << EH_R12;
}

/* Walk again from here, with all registers, first to the frame at stack pointer sp. False: it was not found. */
static __attribute__((noinline)) bool walk_from_here(struct walk *w, uint64_t sp)
{
    struct eh_registers r;
    get_registers(&r);
    for (unsigned i = 0; i < ROUNDS && r.value[EH_RSP] < sp; i++)
        if (step_with_all(w, &r) != STEP_DONE)
            return false;
    if (r.value[EH_RSP] != sp)
        return false;
    w->n = 0;
    walk_with_all(w, &r);
    return true;
}

/* Walk with three registers. True: the walk is complete. False: the frame at *at, which is the last of the stack so far,
 * has unusual rules. */
static bool walk_with_three(struct walk *w, struct native_registers *at)
{
    uint64_t ip = at->ip, sp = at->sp, bp = at->bp;
    while (w->n < w->most) {
        add_frame(w, ip, sp);
        const frame_rule rule = frame_rule_of(ip);
        const enum frame_kind kind = frame_kind(rule);
        uint64_t cfa, saved_bp = bp;
        if (kind == FRAME_FROM_SP)
            cfa = sp + (uint64_t)frame_cfa_offset(rule);
        else if (kind == FRAME_FROM_BP)
            cfa = bp + (uint64_t)frame_cfa_offset(rule);
        else if (kind == FRAME_SAVED_CFA) {
            if (!stack_memory_read(&w->memory, bp + (uint64_t)frame_cfa_offset(rule), &cfa))
                return true;
        } else {
            *at = (struct native_registers){ip, sp, bp};
            return kind != FRAME_OTHER;
        }
        if (cfa <= sp || !stack_memory_read(&w->memory, cfa - 8, &ip) || ip == 0)
            return true;
        if (frame_bp(rule) != BP_SAME &&
            !stack_memory_read(&w->memory,
                               (frame_bp(rule) == BP_FROM_CFA ? cfa : bp) + (uint64_t)frame_bp_offset(rule),
                               &saved_bp))
            return true;
        ip--;
        sp = cfa;
        bp = saved_bp;
    }
    return true;
}

/* Step across frames with unusual rules, of which the first is the last of the stack so far. After a signal frame all
 * registers are known, and the next frame may need them. */
static __attribute__((noinline)) enum step cross(struct walk *w, struct native_registers *at)
{
    struct eh_registers r = {.known = THREE};
    r.value[EH_RIP] = at->ip;
    r.value[EH_RSP] = at->sp;
    r.value[EH_RBP] = at->bp;
    for (;;) {
        const enum step step = step_with_all(w, &r);
        if (step != STEP_DONE)
            return step;
        *at = (struct native_registers){r.value[EH_RIP], r.value[EH_RSP], r.value[EH_RBP]};
        if (w->n == w->most || frame_kind(frame_rule_of(at->ip)) != FRAME_OTHER)
            return STEP_DONE;
        add_frame(w, at->ip, at->sp);
    }
}

static void walk_from(struct walk *w, struct native_registers at, bool can_restart)
{
    const uint64_t start = at.sp;
    while (!walk_with_three(w, &at)) {
        const enum step step = cross(w, &at);
        if (step == STEP_UNKNOWN_REGISTER && can_restart)
            walk_from_here(w, start);
        if (step != STEP_DONE)
            return;
    }
}

uint32_t native_unwind(const struct native_registers *from, uint64_t *ips, uint64_t *sps, uint32_t most)
{
    struct native_registers here;
    struct walk w = {.ips = ips, .sps = sps, .most = most};
    if (!from) {
        const uint64_t *frame = __builtin_frame_address(0); /* the saved rbp, and the return address */
        here = (struct native_registers){frame[1] - 1, (uint64_t)(uintptr_t)(frame + 2), frame[0]};
    }
    frame_rules_check();
    w.memory = stack_memory_from(from ? from->sp : here.sp);
    walk_from(&w, from ? *from : here, !from);
    return w.n;
}
