/* notes.h - what a walk over the stacks has read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A joined stack depends on fields of the VM (cache_key.h) and on words on the stacks, which the walk notes. If all of them
 * have the same values again, so has the stack. A step is a link of the Lua stack, from a frame to the one below; what is
 * noted after it began is what the walk has read to find and name that frame. What is noted before all steps is read for the
 * innermost frame, or belongs to the C stack.
 */
#ifndef LJTRACE_LUAJIT_STACK_NOTES_H
#define LJTRACE_LUAJIT_STACK_NOTES_H

#include <stdbool.h>
#include <stdint.h>

enum { NOTES_WORDS = 512, NOTES_FUNCTIONS = 64, NOTES_THREADS = 4, NOTES_STEPS = 320 };

/* Something that was read at an address, when so many steps had begun. */
struct lt_note {
    uint64_t at;
    uint32_t steps;
};

struct lt_step {
    uint64_t frame;  /* where the link is */
    uint64_t cframe; /* the entry into the VM that the frame belongs to */
    uint32_t keys;   /* the frames of the result up to this one */
    bool foreign;    /* it is on the stack of a thread that has resumed another one */
};

struct lt_notes {
    struct lt_note word[NOTES_WORDS]; /* eight bytes on one of the stacks */
    struct lt_note function
        [NOTES_FUNCTIONS]; /* slots of functions; with 4-byte references the slot is the whole frame */
    uint64_t thread[NOTES_THREADS]; /* that have resumed the one before */
    struct lt_step step[NOTES_STEPS];
    uint32_t words, functions, threads, steps, named;
    uint64_t trace_sp; /* the return address below it is in a trace; 0 = there is none */
    uint32_t frames;   /* links that were needed, if the Lua stack has more; else 0 */
    bool failed;       /* the result depends on something that cannot be noted */
    bool is_long;      /* there was no room for all steps and what belongs to them */
};

/* Those of the current walk. */
const struct lt_notes *lt_notes_taken(void);

void lt_notes_begin(void);
void lt_notes_word(uint64_t at);
void lt_notes_function(uint64_t slot);
void lt_notes_thread(uint64_t L);
/* A C frame with this code address was found: the return address below sp must be the address after it. */
void lt_notes_return(uint64_t sp, uint64_t ip);
/* The code that has called the innermost C functions is in a trace: the return address is below sp. */
void lt_notes_trace(uint64_t sp);
/* A step begins at this frame. */
void lt_notes_step(uint64_t frame, uint64_t cframe);
/* The frames of all steps that have begun are `keys` frames of the result. */
void lt_notes_named(uint32_t keys);
/* No more than this many links of the Lua stack were needed. */
void lt_notes_cut(uint32_t frames);
void lt_notes_give_up(void);

#endif
