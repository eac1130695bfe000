/* names.h - names of places in Lua code. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * In a stack of code addresses, a Lua frame is a key. Before a key is first used, its meaning is written into
 * the ring (RAW_LUAFRAME). A prototype is written together with the lines of all its instructions
 * (RAW_PROTO). A function has one name: the one by which it was first called, which is also what Lua's
 * traceback prints.
 */
#ifndef LJTRACE_LUAJIT_CORE_NAMES_H
#define LJTRACE_LUAJIT_CORE_NAMES_H

#include "ljtrace/luajit/core/states.h"

/* Parts of the virtual machine that occur in stacks as frames. */
enum lt_vm_part { LT_PART_GC = 1, LT_PART_JIT, LT_PART_EXIT };

/* A place in a Lua function. pc: the address of an instruction. */
struct lt_place {
    Addr proto, pc;
    UInt trace; /* the trace that runs it; 0 = the interpreter */
    Bool inlined, approximate;
    Bool is_below; /* the frame is not part of the trace: it is the one below the base */
    /* The call that led here, from which the function's name is derived; 0 = not known. */
    Addr caller_proto, caller_pc;
};

/* The key of a place; 0 if there is no such place. Instructions of one line that follow each other have one key. */
Addr lt_name_place(const struct lt_vm *vm, const struct lt_place *place);
/* Write the name of the code address `ip`, which is in a trace, as the given place. */
void lt_name_code(const struct lt_vm *vm, Addr ip, const struct lt_place *place);
/* Is it a built-in function that is created at run time, like the results of coroutine.wrap and
 * string.gmatch? Such functions are short-lived, so all that have the same code and are called from the same
 * place share a key. */
Bool lt_fast_is_made(const struct lt_vm *vm, Addr function);
/* The key of a fast function that is called from the given place. Its name is that of its library, if it is found there. */
Addr lt_name_fast(const struct lt_vm *vm, Addr function, Addr caller_proto, Addr caller_pc);
/* The key of a part of the virtual machine. */
Addr lt_name_part(enum lt_vm_part part);
/* The key of a line in a chunk that is being parsed. name: the string object with the chunk's name. */
Addr lt_name_compiled(const struct lt_vm *vm, Addr name, UInt line);

/* The prototype of a Lua function object; 0 = none. */
Addr lt_proto_of(const struct lt_vm *vm, Addr function);
/* The live prototype that contains a code address; 0 = none. */
Addr lt_proto_holding(const struct lt_vm *vm, Addr pc);
/* The source line of the instruction at pc; 0 = not known. */
UInt lt_line_at(const struct lt_vm *vm, Addr proto, Addr pc);

/* A prototype's name, as `name file:line`. Valid until the next call. */
const HChar *lt_proto_title(const struct lt_vm *vm, Addr proto);

/* A Lua function was created. Its prototype is written into the ring, so that what the function executes can
 * be attributed to its lines. */
void lt_function_made(const struct lt_vm *vm, Addr function);
/* A block is a prototype. */
void lt_proto_made(const struct lt_vm *vm, Addr proto);
/* A block of a Lua heap is being freed. */
void lt_proto_gone(Addr block);
/* Forget all prototypes and what was written of them: they may be freed unseen from now on. */
void lt_protos_forget(void);
/* How often places were forgotten: what was cached about places under an earlier number may be wrong. */
UInt lt_places_generation(void);

#endif
