/* frames.c - the frames of a Lua stack, from the innermost to the outermost, without names.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/stack/frames.h"

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
    const uint64_t function = lt_frame_function(f->vm, frame, false),
                   proto = lt_function_proto(f->vm, function);
    if (proto && lt_vm_gct(f->vm, proto) == GCT_PROTO && lt_line_at(f->vm, proto, r->pc - 4)) {
        f->frame = frame;
        f->pc = r->pc;
    } else if (!proto && lt_vm_gct(f->vm, function) == GCT_FUNC &&
               lt_frame_link(f->vm, frame, false) == (int64_t)r->pc)
        f->frame = frame;
}
