/* frame_rules.h - how to get from a frame to its caller, for a code address.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Nearly all rules in .eh_frame have one of a few forms, which fit into one word. The words are kept in a cache that all
 * threads share, because the stacks of a program consist of few code addresses. Rules of other forms are executed as
 * they are written.
 *
 * No locks, no memory: it works in signal handlers.
 */
#ifndef LJTRACE_NATIVE_UNWIND_FRAME_RULES_H
#define LJTRACE_NATIVE_UNWIND_FRAME_RULES_H

#include "ljtrace/native/unwind/code_objects.h"
#include <stddef.h>

/* A packed rule. From the lowest bit: kind (3 bits), where the caller's rbp is (2), the offset of that in words (12),
 * the offset of the CFA in bytes (24), the number of the object (23). Unless the kind is another, the return address
 * lies just below the CFA. */
typedef uint64_t frame_rule;

enum frame_kind {
    FRAME_UNKNOWN,   /* there are no rules: perhaps code that was made at run time */
    FRAME_FROM_SP,   /* CFA = rsp + offset */
    FRAME_FROM_BP,   /* CFA = rbp + offset */
    FRAME_SAVED_CFA, /* CFA = the word at rbp + offset: a function that has realigned its stack */
    FRAME_OUTERMOST, /* there is no caller */
    FRAME_OTHER      /* see frame_full_rules */
};

enum frame_bp { BP_SAME, BP_FROM_CFA /* saved at CFA + offset */, BP_FROM_BP /* saved at rbp + offset */ };

static inline enum frame_kind frame_kind(frame_rule rule)
{
    return (enum frame_kind)(rule & 7);
}

static inline enum frame_bp frame_bp(frame_rule rule)
{
    return (enum frame_bp)(rule >> 3 & 3);
}

static inline int64_t frame_bp_offset(frame_rule rule)
{
    return ((int64_t)(rule << 47) >> 52) * 8;
}

static inline int64_t frame_cfa_offset(frame_rule rule)
{
    return (int64_t)(rule << 23) >> 40;
}

/* The number of the object that the rule is from (code_objects.h): the rule holds as long as that object is loaded. */
static inline uint32_t frame_object(frame_rule rule)
{
    return (uint32_t)(rule >> 41);
}

/* Copy bytes from memory that may not be readable: a frame_pointer_read (frame_pointer.h). */
bool frame_read(void *context, uint64_t address, void *to, size_t n);
/* Begin a walk: forget what is no longer valid. */
void frame_rules_check(void);
/* The rule for the instruction at `ip`: one that was kept, which holds if its object is still loaded. */
frame_rule frame_kept_rule(uint64_t ip);
/* The rule for it, from the object that is there now. */
frame_rule frame_new_rule(uint64_t ip);
/* All rules for it, and the sections that the expressions in them lie in. False: there are none. */
bool frame_full_rules(uint64_t ip, struct eh_rules *rules, struct eh_sections *sections);

#endif
