/* machine.h - what the profilers read of a LuaJIT state: what its virtual machine does, and the Lua stack.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Memory is read only where it is mapped, so a pointer that is wrong gives no frame, never a fault. Nothing is allocated,
 * no locks: it works in signal handlers. How the Lua stack is laid out is described in ljtrace/luajit/stack/walk.c.
 */
#ifndef LJTRACE_PROFILERS_MACHINE_H
#define LJTRACE_PROFILERS_MACHINE_H

#include "ljtrace/protocol/lua_layout.h"
#include "ljtrace/protocol/luajit_offsets.h"
#include <stdbool.h>

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

struct machine {
    const struct lua_layout *layout;
    const struct luajit_offsets *at;
    uint64_t g;
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

/* A walk over the Lua stack, from the innermost frame outwards. */
struct machine_walk {
    const struct machine *m;
    uint64_t L, bottom, top;
    uint64_t frame; /* the current frame; 0 = there is none */
    uint64_t next;  /* the frame before it; 0 = it is the innermost */
    uint64_t cframe;
    uint64_t pc; /* after the instruction of the innermost frame, if it was given */
};

/* Find how this LuaJIT keeps its state, by a scratch state, the first time; then describe the state of L. Returns NULL, or
 * why that is not possible. */
const char *machine_find(struct machine *m, struct lua_State *L);
/* Memory that was mapped may not be so any more. */
void machine_forget(void);
/* Read a number of 1 to 8 bytes; 0 if it is not mapped. */
uint64_t machine_number(uint64_t at, uint32_t size);
uint64_t machine_ref(const struct machine *m, uint64_t at);

/* What the virtual machine does now: enum mt_vm. *trace: the number of the running trace. */
uint32_t machine_doing(const struct machine *m, uint32_t *trace);
/* The thread of Lua that runs, and the virtual machine's frame on the C stack; 0 = none. */
uint64_t machine_thread(const struct machine *m);
uint64_t machine_cframe(const struct machine *m);

/* Begin a walk of the running thread. base, pc: registers of the interpreter, of which they are taken if they are
 * consistent; 0 = use what is saved. */
void machine_walk(struct machine_walk *w, const struct machine *m, uint64_t base, uint64_t pc);
/* The next frame. Returns false if there is none. */
bool machine_next(struct machine_walk *w, struct machine_frame *f);

/* The first line of a prototype; all bits are set for a built-in function. */
uint64_t machine_first_line(const struct machine *m, uint64_t proto);
/* The chunk's name of a prototype, as LuaJIT keeps it. Returns its length; *text: its first byte. */
uint32_t machine_chunk(const struct machine *m, uint64_t proto, const char **text);
/* Where a trace begins. Returns false if there is no such trace. */
bool machine_trace(const struct machine *m, uint32_t trace, uint64_t *proto, uint32_t *line);

#endif
