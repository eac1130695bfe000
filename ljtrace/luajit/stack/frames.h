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
};

/* How it is read. The functions that get this are inline, and it is constant where they are called. */
struct lt_reading {
    bool is_readable; /* the whole stack was found to be so */
    /* Called with the address of each word that is read besides links, functions and code; NULL = none is. */
    void (*note)(uint64_t at);
};

/* Values that the interpreter keeps in registers while its code runs, as opposed to C functions. */
struct lt_registers {
    uint64_t base, pc;
};

/* Go to the innermost frame of a thread. The stack need not be readable. f->vm and f->cframe are to be set. */
void lt_frames_begin(struct lt_frames *f, uint64_t L);
/* Use the interpreter's registers, if they are consistent: the frame's function contains this bytecode, or it
 * is a fast function that returns to it. */
void lt_frames_use(struct lt_frames *f, const struct lt_registers *r);
/* Is there a frame at this address? */
static inline bool lt_frames_inside(const struct lt_frames *f, uint64_t frame)
{
    return frame > f->bottom && frame < f->top && !(frame & 7);
}

#define LT_INLINE static inline __attribute__((always_inline))

LT_INLINE void lt_frames_note(struct lt_reading how, uint64_t at)
{
    if (how.note)
        how.note(at);
}

/* The address after the instruction that the innermost function in f->cframe executes; 0 = none is saved there. */
LT_INLINE uint64_t lt_frames_cframe_pc(const struct lt_frames *f, struct lt_reading how)
{
    const uint64_t at = f->cframe + f->vm->layout->cframe_pc;
    lt_frames_note(how, at);
    const uint64_t pc = lt_vm_ref(f->vm, at);
    return pc == f->L ? 0 : pc;
}

/* The address after the instruction that the current frame executes; 0 = not known. */
LT_INLINE uint64_t lt_frames_return_pc(const struct lt_frames *f, struct lt_reading how)
{
    if (!f->next)
        return f->pc ? f->pc : lt_frames_cframe_pc(f, how);
    const int64_t link = lt_frame_link(f->vm, f->next, how.is_readable);
    if ((link & 3) == LINK_LUA)
        return lt_link_pc(f->vm, link);
    if ((link & 3) != LINK_CONTINUED)
        return lt_frames_cframe_pc(f, how);
    lt_frames_note(how, f->next - (f->vm->layout->gc64 ? 16 : 8));
    return lt_continued_pc(f->vm, f->next, how.is_readable);
}

/* The entry into the VM before f->cframe; 0 = it is the thread's first one. */
LT_INLINE uint64_t lt_frames_cframe_before(const struct lt_frames *f, struct lt_reading how)
{
    lt_frames_note(how, f->cframe + f->vm->layout->cframe_prev);
    return lt_cframe_before(f->vm, f->cframe);
}

/* Go to the frame below. Returns false if there is none. */
LT_INLINE bool lt_frames_step(struct lt_frames *f, struct lt_reading how)
{
    const int64_t link = lt_frame_link(f->vm, f->frame, how.is_readable);
    const uint64_t below = lt_frame_below(f->vm, f->frame, link);
    if ((link & 3) == LINK_C) {
        const uint64_t before = lt_frames_cframe_before(f, how);
        if (!before && f->cframe)
            f->outermost = f->cframe;
        f->cframe = before;
    }
    f->next = f->frame;
    f->frame = below < f->frame && lt_frames_inside(f, below) ? below : 0;
    return f->frame != 0;
}

#endif
