/* machine.h - what the profilers read of a LuaJIT state: what its virtual machine does, and the Lua stack.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Memory is read only where it is mapped, so a pointer that is wrong gives no frame, never a fault. Nothing is allocated,
 * no locks: it works in signal handlers. Of a state of LuaJIT (struct lt_vm) only g, layout and at are known. Its stack is
 * read by ljtrace/luajit/stack/frames.h.
 */
#ifndef LJTRACE_PROFILERS_MACHINE_H
#define LJTRACE_PROFILERS_MACHINE_H

#include "ljtrace/luajit/core/objects.h"
#include "ljtrace/luajit/stack/frames.h"

struct lua_State;

/* The states of the virtual machine, as numbered in the streams of sysprof. */
enum machine_state {
    MACHINE_INTERP,
    MACHINE_LFUNC,
    MACHINE_FFUNC,
    MACHINE_CFUNC,
    MACHINE_GC,
    MACHINE_EXIT,
    MACHINE_RECORD,
    MACHINE_OPT,
    MACHINE_ASM,
    MACHINE_TRACE,
    MACHINE_STATES
};

/* A frame of the Lua stack. */
struct machine_frame {
    enum machine_frame_kind { FRAME_LUA, FRAME_FAST, FRAME_C } kind;
    uint64_t function; /* the object */
    uint64_t proto;    /* FRAME_LUA */
    uint32_t line;     /* FRAME_LUA: that is executed; 0 = not known */
    bool has_lines;    /* FRAME_LUA: its lines are known */
    uint64_t code;     /* FRAME_C: the C function */
    uint32_t ffid;     /* FRAME_FAST */
};

/* Find how this LuaJIT keeps its state, by a scratch state, the first time; then describe the state of L. Returns NULL, or
 * why that is not possible. */
const char *machine_find(struct lt_vm *vm, struct lua_State *L);
/* Does the thread belong to this state? */
static inline bool machine_is_of(const struct lt_vm *vm, const struct lua_State *L)
{
    return lt_vm_ref(vm, (uint64_t)(uintptr_t)L + vm->at->thread_global) == vm->g;
}
/* What the virtual machine does now: enum mt_vm. *trace: the number of the running trace. */
uint32_t machine_doing(const struct lt_vm *vm, uint32_t *trace);
/* The thread of Lua that runs, and the virtual machine's frame on the C stack; 0 = none. */
uint64_t machine_thread(const struct lt_vm *vm);
uint64_t machine_cframe(const struct lt_vm *vm);

/* Go to the innermost frame of the running thread. live: registers of the interpreter, which are used if they are
 * consistent; NULL = use what is saved. */
void machine_walk(struct lt_frames *w, const struct lt_vm *vm, const struct lt_registers *live);
/* Describe the current frame and go to the one below. Returns false if there is none. */
bool machine_next(struct lt_frames *w, struct machine_frame *f);

/* The first line of a prototype; all bits are set for a built-in function. */
uint64_t machine_first_line(const struct lt_vm *vm, uint64_t proto);
/* The chunk's name of a prototype, as LuaJIT keeps it. Returns its length; *text: its first byte. */
uint32_t machine_chunk(const struct lt_vm *vm, uint64_t proto, const char **text);
/* Where a trace begins. Returns false if there is no such trace. */
bool machine_trace(const struct lt_vm *vm, uint32_t trace, uint64_t *proto, uint32_t *line);

#endif
