/* names.h - names of places in Lua code.
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

#include "ljtrace/luajit/core/objects.h"
#include <stdbool.h>
#include <stdint.h>

/* Parts of the virtual machine that occur in stacks as frames. */
enum lt_vm_part { LT_PART_GC = 1, LT_PART_JIT, LT_PART_EXIT };

/* A place in a Lua function. pc: the address of an instruction. */
struct lt_place {
    uint64_t proto, pc;
    uint32_t trace; /* the trace that runs it; 0 = the interpreter */
    bool inlined, approximate;
    bool is_below;    /* the frame is not part of the trace: it is the one below the base */
    bool by_built_in; /* called by a built-in function such as pcall: no code names it */
    bool of_snapshot; /* from a snapshot of the trace; else the compiler was observed */
    /* The call that led here, from which the function's name is derived; 0 = not known. */
    uint64_t caller_proto, caller_pc;
};

/* The key of a place; 0 if there is no such place. Instructions of one line that follow each other have one key. */
uint64_t lt_name_place(const struct lt_vm *vm, const struct lt_place *place);
/* Write the name of the code address `ip`, which is in a trace, as the given place. */
void lt_name_code(const struct lt_vm *vm, uint64_t ip, const struct lt_place *place);
/* Is it a built-in function that is created at run time, like the results of coroutine.wrap and
 * string.gmatch? Such functions are short-lived, so all that have the same code and are called from the same
 * place share a key. */
bool lt_fast_is_made(const struct lt_vm *vm, uint64_t function);
/* The key of a fast function that is called from the given place. Its name is that of its library, if it is found there. */
uint64_t lt_name_fast(const struct lt_vm *vm, uint64_t function, uint64_t caller_proto, uint64_t caller_pc);
/* The key of a part of the virtual machine. */
uint64_t lt_name_part(enum lt_vm_part part);
/* The key of a line in a chunk that is being parsed. name: the string object with the chunk's name. */
uint64_t lt_name_compiled(const struct lt_vm *vm, uint64_t name, uint32_t line);

/* The prototype of a Lua function object; 0 = none. */
uint64_t lt_proto_of(const struct lt_vm *vm, uint64_t function);
/* The live prototype that contains a code address; 0 = none. */
uint64_t lt_proto_holding(const struct lt_vm *vm, uint64_t pc);

/* A prototype's name, as `name file:line`. Valid until the next call. */
const char *lt_proto_title(const struct lt_vm *vm, uint64_t proto);

/* The title of the local variable that has a slot, counted from the function's base, while the instruction at pc is executed:
 * `name (file:line)`, with the line where it is declared. Returns the address of its name, which no other variable has; 0 =
 * there is none. */
uint64_t lt_local_title(const struct lt_vm *vm, uint64_t proto, uint64_t pc, uint32_t slot, char *to,
                        uint32_t limit);

/* A Lua function was created. Its prototype is written into the ring, so that what the function executes can
 * be attributed to its lines. */
void lt_function_made(const struct lt_vm *vm, uint64_t function);
/* A block is a prototype. */
void lt_proto_made(const struct lt_vm *vm, uint64_t proto);
/* A block of a Lua heap is being freed. */
void lt_proto_gone(uint64_t block);
/* Forget all prototypes and what was written of them: they may be freed unseen from now on. */
void lt_protos_forget(void);
/* How often places were forgotten: what was cached about places under an earlier number may be wrong. */
uint32_t lt_places_generation(void);

#endif
