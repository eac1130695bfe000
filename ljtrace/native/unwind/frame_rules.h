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

#include "ljtrace/frames/eh_frame.h"
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

/* The number of the object that the rule is from (see below): the rule holds as long as that object is loaded. */
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

/* -- the object file of a code address -- */

/* What was found out about a code address may be kept only as long as its object stays loaded. Objects that were loaded
 * when the program started stay; what is known of them never changes. Each other object has a number: it gets a new one
 * whenever an object was closed, and so does another object that is mapped at the same place.
 *
 * No locks, no memory: it works in signal handlers. */

/* Numbers of objects are below 2^23, so that they fit into packed rules. */
enum { CODE_PERMANENT = 0, CODE_NUMBERS = 1 << 23, CODE_NO_NUMBER, CODE_NO_OBJECT };

/* The number of the object that contains a code address; CODE_NO_NUMBER if it has none, so that nothing may be kept. */
uint32_t code_object_number(uint64_t ip);
/* The same, with the object's sections. CODE_NO_OBJECT: no object has this address, or it has no .eh_frame. */
uint32_t code_object_sections(uint64_t ip, struct eh_sections *sections);
/* An object was closed, or is about to be. */
void code_objects_closed(void);
/* How often a permanent object turned out not to be one: what was kept of permanent objects is void. */
uint32_t code_objects_mistakes(void);

#endif
