/* frames.c - the frames of a Lua stack, from the innermost to the outermost, without names. (no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/stack/frames.h"

static void note(const struct lt_frames *f, uint64_t at)
{
    if (f->note)
        f->note(at);
}

void lt_frames_begin(struct lt_frames *f, uint64_t L)
{
    const struct lt_vm *vm = f->vm;
    const uint64_t stack = lt_vm_ref(vm, L + vm->at->thread_stack);
    f->L = L;
    f->bottom = stack + (vm->layout->gc64 ? 8 : 0);
    f->top = stack + 8 * (uint64_t)lt_vm_u32(L + vm->at->thread_size);
    f->frame = lt_vm_ref(vm, L + vm->at->thread_base) - 8;
    f->next = f->pc = f->outermost = 0;
}

void lt_frames_use(struct lt_frames *f, const struct lt_registers *r)
{
    const uint64_t frame = r->base - 8;
    if (!lt_frames_inside(f, frame))
        return;
    const uint64_t function = lt_frame_function(f->vm, frame), proto = lt_function_proto(f->vm, function);
    if (proto && lt_vm_gct(f->vm, proto) == GCT_PROTO && lt_line_at(f->vm, proto, r->pc - 4)) {
        f->frame = frame;
        f->pc = r->pc;
    } else if (!proto && lt_vm_gct(f->vm, function) == GCT_FUNC &&
               lt_frame_link(f->vm, frame) == (int64_t)r->pc)
        f->frame = frame;
}

uint64_t lt_frames_cframe_pc(const struct lt_frames *f)
{
    note(f, f->cframe + f->vm->layout->cframe_pc);
    const uint64_t pc = lt_vm_ref(f->vm, f->cframe + f->vm->layout->cframe_pc);
    return pc == f->L ? 0 : pc;
}

uint64_t lt_frames_return_pc(const struct lt_frames *f)
{
    if (!f->next)
        return f->pc ? f->pc : lt_frames_cframe_pc(f);
    const int64_t link = lt_frame_link(f->vm, f->next);
    if ((link & 3) == LINK_LUA)
        return lt_link_pc(f->vm, link);
    if ((link & 3) != LINK_CONTINUED)
        return lt_frames_cframe_pc(f);
    note(f, f->next - (f->vm->layout->gc64 ? 16 : 8));
    return lt_vm_ref(f->vm, lt_continued_at(f->vm, f->next));
}

uint64_t lt_frames_cframe_before(const struct lt_frames *f)
{
    note(f, f->cframe + f->vm->layout->cframe_prev);
    return lt_cframe_before(f->vm, f->cframe);
}

static void leave_cframe(struct lt_frames *f)
{
    const uint64_t before = lt_frames_cframe_before(f);
    if (!before && f->cframe)
        f->outermost = f->cframe;
    f->cframe = before;
}

bool lt_frames_step(struct lt_frames *f)
{
    const int64_t link = lt_frame_link(f->vm, f->frame);
    const uint64_t below = lt_frame_below(f->vm, f->frame, link);
    if ((link & 3) == LINK_C)
        leave_cframe(f);
    f->next = f->frame;
    f->frame = below < f->frame && lt_frames_inside(f, below) ? below : 0;
    return f->frame != 0;
}
