/* objects.h - read what LuaJIT's structures say, without keeping anything.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Of a state only vm->g, vm->layout and vm->at are used. Nothing is allocated or written: this works in signal handlers.
 */
#ifndef LJTRACE_LUAJIT_CORE_OBJECTS_H
#define LJTRACE_LUAJIT_CORE_OBJECTS_H

#include "ljtrace/luajit/core/states.h"

/* What the VM does now: enum mt_vm. */
uint32_t lt_machine_state(const struct lt_vm *vm);
/* The VM's frame on the C stack; 0 = it is not running. */
uint64_t lt_vm_cframe(const struct lt_vm *vm);
/* The next one further out. */
static inline uint64_t lt_cframe_before(const struct lt_vm *vm, uint64_t cframe)
{
    return program_number(cframe + vm->layout->cframe_prev, 8) & ~(uint64_t)3;
}

/* The address where a Lua function's prototype should be; 0 = the object is no Lua function. */
uint64_t lt_function_proto(const struct lt_vm *vm, uint64_t function);
/* LuaJIT has some library functions in bytecode, which has no lines. */
bool lt_proto_is_built_in(const struct lt_vm *vm, uint64_t proto);
/* The line on which a function begins. It is 0 for main chunks, and for built-in functions, which have none. */
uint32_t lt_first_line(const struct lt_vm *vm, uint64_t proto);
/* The line of the i-th instruction; 0 = not known. Instruction 0 is the function's header. */
uint32_t lt_line_of(const struct lt_vm *vm, uint64_t proto, uint32_t i);
/* The source line of the instruction at pc; 0 = not known. */
uint32_t lt_line_at(const struct lt_vm *vm, uint64_t proto, uint64_t pc);

/* -- frames of the Lua stack; the address of a frame is that of its link. is_readable: the stack was found to be so -- */

static inline uint64_t lt_slot(uint64_t at, uint32_t size, bool is_readable)
{
    if (!is_readable)
        return program_number(at, size);
    return size == 8 ? *(const uint64_t *)at : *(const uint32_t *)at;
}

/* The link: a return address, or a distance to the frame below, with the kind of caller (enum lt_link) in the low bits. */
static inline int64_t lt_frame_link(const struct lt_vm *vm, uint64_t frame, bool is_readable)
{
    return vm->layout->gc64 ? (int64_t)lt_slot(frame, 8, is_readable)
                            : (int32_t)lt_slot(frame + 4, 4, is_readable);
}

/* The function whose frame it is. */
static inline uint64_t lt_frame_function(const struct lt_vm *vm, uint64_t frame, bool is_readable)
{
    return vm->layout->gc64 ? lt_slot(frame - 8, 8, is_readable) & (((uint64_t)1 << 47) - 1)
                            : lt_slot(frame, 4, is_readable);
}

/* The return address in the link of a frame that Lua has called. */
static inline uint64_t lt_link_pc(const struct lt_vm *vm, int64_t link)
{
    return vm->layout->gc64 ? (uint64_t)link : (uint32_t)link;
}

/* The return address of a frame with a continuation. */
static inline uint64_t lt_continued_pc(const struct lt_vm *vm, uint64_t frame, bool is_readable)
{
    return vm->layout->gc64 ? lt_slot(frame - 16, 8, is_readable) : lt_slot(frame - 4, 4, is_readable);
}

/* The frame below one with this link. */
static inline uint64_t lt_frame_below(const struct lt_vm *vm, uint64_t frame, int64_t link)
{
    if ((link & 3) != LINK_LUA)
        return frame - (uint64_t)(link & ~(int64_t)7);
    const uint32_t slot = lt_vm_u32(lt_link_pc(vm, link) - 4) >> 8 & 0xff; /* of the call */
    return frame - 8 * (uint64_t)((vm->layout->gc64 ? 2 : 1) + slot);
}

#endif
