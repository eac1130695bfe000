/* last_stack.h - the stack that a thread's last walk found, to be used again where it has not changed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Most stacks of a thread share their outer frames with the stack before. A step from a frame to its caller depends on
 * the registers of the frame and on one or two words of memory: the return address and the saved rbp. So where a walk
 * comes to a frame with the same registers as in the last walk, and these words are the same, the caller is the same,
 * and so on outwards. Comparing words is faster than walking, since no comparison waits for the one before.
 *
 * A step that used more than these words, or memory that may be unmapped, is done anew. So is one by rules of an object
 * that has been closed.
 */
#ifndef LJTRACE_NATIVE_UNWIND_LAST_STACK_H
#define LJTRACE_NATIVE_UNWIND_LAST_STACK_H

#include "ljtrace/native/unwind/stack_memory.h"

enum { LAST_FRAMES = 1024 }; /* deeper stacks are not kept */
enum { LAST_OBJECTS = 32 };

/* The frames from `first` to the end of the arrays, the innermost first: so that outer frames stay where they are. */
struct last_stack {
    uint32_t first;
    uint32_t mistakes; /* see code_objects_mistakes */
    uint64_t walking;  /* the stack pointer at the beginning of the walk that is at work; 0: none is */
    uint64_t ip[LAST_FRAMES], sp[LAST_FRAMES], bp[LAST_FRAMES];
    /* The word that rbp was restored from; if rbp was unchanged, the word of the return address; 0: the step to this
     * frame must be done anew. */
    uint64_t word[LAST_FRAMES];
    uint8_t object[LAST_FRAMES]; /* that with the rule for the step to this frame, as an index of `objects` */
    /* bp, word and object of the walk at work, from index 0 */
    uint64_t new_bp[LAST_FRAMES], new_word[LAST_FRAMES];
    uint8_t new_object[LAST_FRAMES];
    uint32_t n_objects;
    uint32_t objects[LAST_OBJECTS]; /* numbers of code_objects.h; the first is CODE_PERMANENT */
    uint32_t valid;                 /* bit i: objects[i] was seen to be loaded in this walk */
};

/* Walks that begin at the caller, and those from given registers: the latter continue stacks of the former, so each kind
 * has its own last stack. */
enum last_kind { LAST_FROM_CALLER, LAST_FROM_REGISTERS, LAST_KINDS };

/* The last stack of this thread, for a walk that begins at `sp`. NULL: there is none, or the walk that uses it was
 * interrupted by this one. */
struct last_stack *last_stack_begin(enum last_kind kind, uint64_t sp, const struct stack_memory *memory);

static inline void last_stack_end(struct last_stack *last)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    last->walking = 0;
}

/* The index of an object in `objects` if it is loaded and contains the code at `ip`; LAST_OBJECTS if it is not. */
uint32_t last_stack_object(struct last_stack *last, uint32_t number, uint64_t ip);

/* Are the words that the step to frame i depends on still the same? */
static inline bool last_stack_step_is_same(const struct last_stack *last, uint32_t i)
{
    const uint64_t return_at = last->sp[i] - 8, word_at = last->word[i];
    uint64_t return_address, word;
    if (!word_at || !(last->valid >> last->object[i] & 1))
        return false;
    memcpy(&return_address, (const void *)(uintptr_t)return_at, sizeof return_address);
    memcpy(&word, (const void *)(uintptr_t)word_at, sizeof word);
    return return_address == last->ip[i] + 1 && word == (word_at == return_at ? return_address : last->bp[i]);
}

/* Keep the frames ips[0] to ips[n-1] before the frame at index `at`, with what is noted of them. */
void last_stack_keep(struct last_stack *last, const uint64_t *ips, const uint64_t *sps, uint32_t n,
                     uint32_t at);

#endif
