/* frames.h - the frames of a Lua stack, from the innermost to the outermost, without names.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * LuaJIT has two stacks. On the C stack, each entry into the VM has a frame of its own (cframe). On the Lua
 * stack, each frame has a link to the next one, with its kind in the low bits. A Lua frame belongs to the
 * innermost cframe around it. The program counter of a Lua frame is the return address in the frame above it;
 * that of the innermost frame is in the cframe.
 *
 * Nothing is allocated or written: this works in signal handlers.
 */
#ifndef LJTRACE_LUAJIT_STACK_FRAMES_H
#define LJTRACE_LUAJIT_STACK_FRAMES_H

#include "ljtrace/luajit/core/objects.h"

/* A place in a Lua stack. */
struct lt_frames {
    const struct lt_vm *vm;
    uint64_t L, bottom, top; /* the thread, and its stack */
    uint64_t frame;          /* the current frame; outside of the stack if there is none */
    uint64_t next;           /* the one above; 0 = it is the innermost */
    uint64_t pc;             /* of the innermost frame if it is in a register; else 0 */
    uint64_t cframe;         /* the entry into the VM that the frame belongs to */
    uint64_t outermost;      /* the thread's first cframe; 0 = not reached yet */
    /* Is called with the address of each word that is read besides links, functions and code; NULL = is not. */
    void (*note)(uint64_t at);
};

/* Values that the interpreter keeps in registers while its code runs, as opposed to C functions. */
struct lt_registers {
    uint64_t base, pc;
};

/* Go to the innermost frame of a thread. The stack need not be readable. f->vm and f->cframe are to be set. */
void lt_frames_begin(struct lt_frames *f, uint64_t L);
/* Is there a frame at this address? */
static inline bool lt_frames_inside(const struct lt_frames *f, uint64_t frame)
{
    return frame > f->bottom && frame < f->top && !(frame & 7);
}
/* Use the interpreter's registers, if they are consistent: the frame's function contains this bytecode, or it
 * is a fast function that returns to it. */
void lt_frames_use(struct lt_frames *f, const struct lt_registers *r);
/* The address after the instruction that the innermost function in f->cframe executes; 0 = none is saved there. */
uint64_t lt_frames_cframe_pc(const struct lt_frames *f);
/* The address after the instruction that the current frame executes; 0 = not known. */
uint64_t lt_frames_return_pc(const struct lt_frames *f);
/* Go to the frame below. Returns false if there is none. */
bool lt_frames_step(struct lt_frames *f);
/* The entry into the VM before f->cframe; 0 = it is the thread's first one. */
uint64_t lt_frames_cframe_before(const struct lt_frames *f);

#endif
