/* names.h - what a place in Lua is called. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A Lua frame travels as a key in a stack of code addresses; what the key stands for is told to the collector
 * (RAW_LUAFRAME) before it is first used. Prototypes are told with the lines of all their instructions
 * (RAW_PROTO). A function has one name: that by which it was first called, as Lua's own traceback has it.
 */
#ifndef LJTRACE_TOOL_LUAJIT_CORE_NAMES_H
#define LJTRACE_TOOL_LUAJIT_CORE_NAMES_H

#include "ljtrace/tool/luajit/core/states.h"

/* Parts of the virtual machine that stand in stacks. */
enum lt_vm_part { LT_PART_GC = 1, LT_PART_JIT, LT_PART_EXIT };

/* A place in a Lua function. `pc`: address of an instruction, of any when `exact` is False. */
struct lt_place {
    Addr proto, pc;
    UInt trace; /* number of the trace it runs in, 0 = the interpreter runs it */
    Bool inlined, approximate;
    Addr caller_proto, caller_pc; /* the call that led here, for its name; 0 = not known */
};

/* The key of a place; 0 if there is no such. */
Addr lt_name_place(const struct lt_vm *vm, const struct lt_place *place);
/* Tell that the code address `ip` (of a trace) belongs to that place. */
void lt_name_code(const struct lt_vm *vm, Addr ip, const struct lt_place *place);
/* Is it a built-in function made while the program runs, as those of coroutine.wrap and string.gmatch? One of
 * these stands for all with that code that are called from its place: they come and go. */
Bool lt_fast_is_made(const struct lt_vm *vm, Addr function);
/* The key of a fast function, called from there. */
Addr lt_name_fast(const struct lt_vm *vm, Addr function, Addr caller_proto, Addr caller_pc);
Addr lt_name_part(enum lt_vm_part part);
/* The key of a line of a chunk that is being compiled; `name`: the chunk's, a string object. */
Addr lt_name_compiled(const struct lt_vm *vm, Addr name, UInt line);

/* The prototype of a Lua function object; 0. */
Addr lt_proto_of(const struct lt_vm *vm, Addr function);
/* The live prototype that holds a code address; 0. */
Addr lt_proto_holding(const struct lt_vm *vm, Addr pc);
/* Line of the instruction at pc; 0. */
UInt lt_line_at(const struct lt_vm *vm, Addr proto, Addr pc);

/* What a prototype is called: `name file:line`. Valid until the next call. */
const HChar *lt_proto_title(const struct lt_vm *vm, Addr proto);

/* A Lua function was made: tell of its prototype, so that what it executes can be led to its lines. */
void lt_function_made(const struct lt_vm *vm, Addr function);
/* A block is a prototype; a block of a Lua heap is gone. */
void lt_proto_made(const struct lt_vm *vm, Addr proto);
void lt_proto_gone(Addr block);
/* Counts how often places were forgotten: what was learnt of places before may not hold any more. */
UInt lt_places_generation(void);

#endif
