/* known_stack.h - the numbers of C stacks that have not changed since they were unwound.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Programs allocate at few places, and a stack depends on few words of memory (native_unwind_words). So each thread keeps
 * these words with the stack's number: an event at the same place compares them, and needs no walk if they are the same.
 */
#ifndef LJTRACE_NATIVE_INSIDE_KNOWN_STACK_H
#define LJTRACE_NATIVE_INSIDE_KNOWN_STACK_H

#include "ljtrace/native/unwind/unwind.h"

enum { KNOWN_WORDS = 56 };

struct known_stack {
    struct native_registers from;
    uint64_t function;           /* the innermost frame, if it is not that of the registers; else 0 */
    uint32_t words;              /* 0 = nothing is known */
    bool uses_bp;                /* it depends on from.bp */
    uint32_t mistakes;           /* code_objects_mistakes */
    uint32_t number, generation; /* the stack's, and stack_tree_generation for which it holds */
    struct native_word word[KNOWN_WORDS];
};

/* What is known of the running thread's stack, from these registers on; NULL = it has to be unwound. The number is only valid
 * for its generation. Not for signal handlers that interrupt an event. */
const struct known_stack *known_stack_find(const struct native_registers *from, uint64_t function);
/* Keep the number of the stack that was unwound last, from these registers, if it depends on few words. Only while the ring
 * is locked. */
void known_stack_keep(const struct native_registers *from, uint64_t function, uint32_t number);

#endif
