/* code_patch.h - call another function in place of one of the program's.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Calls within an object do not pass its PLT, so they cannot be interposed. Therefore the function's first instructions
 * are replaced by a jump. They are moved to memory nearby, from where the rest of the function follows.
 */
#ifndef LJTRACE_NATIVE_INSIDE_CODE_PATCH_H
#define LJTRACE_NATIVE_INSIDE_CODE_PATCH_H

#include <stdbool.h>
#include <stdint.h>

/* A patched function. */
struct code_patch {
    void *function; /* as the program knows it */
    void *original; /* what it did: callable in its place */
    uint32_t size;  /* of the function's code; 0 = not known */
    uint32_t image; /* for the wrapper */
    bool always;    /* call the wrapper also while nothing is recorded */
    bool in_r11;    /* the wrapper gets the patch in %r11, so that the function may have six arguments */
    bool is_shared; /* other threads may be executing it: do not move instructions that they may be among */
};

/* Where the running thread was interrupted (ljtrace attach); 0 = it was not. Instructions there are not moved. */
extern uint64_t code_patch_interrupted;

/* Let calls of p->function call `wrapper`, which gets p as its fifth argument; so the function may have at most four,
 * unless p->in_r11 is set. Sets p->original. While nothing is recorded, the function goes on at once. Returns NULL, or
 * why it is not possible; then nothing is changed. */
const char *code_patch(struct code_patch *p, void *wrapper);

#endif
