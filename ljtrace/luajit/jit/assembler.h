/* assembler.h - map each piece of a trace's machine code to its intermediate instruction.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A finished trace does not contain this mapping, but the running assembler shows it. The assembler processes
 * the intermediate instructions from last to first and writes machine code downwards. Whenever it decrements
 * the number of the current instruction, its pointer to the machine code is where the code of that
 * instruction ends. These stores are observed like those described in ljtrace/valgrind/luajit/vmstate.h.
 */
#ifndef LJTRACE_LUAJIT_JIT_ASSEMBLER_H
#define LJTRACE_LUAJIT_JIT_ASSEMBLER_H

#include "ljtrace/luajit/core/states.h"
#include <stdint.h>

/* The VM begins to assemble. */
void lt_asm_begin(struct lt_vm *vm);
/* The VM has finished assembling. */
void lt_asm_end(struct lt_vm *vm);
/* A store to address `a`, while one of the states is assembling. */
void lt_asm_store(struct lt_vm *vm, uint64_t a);

/* Results of lt_asm_ref: not known; or code around the trace, which loads its state at the start or leads on
 * from its end. */
enum { LT_ASM_UNKNOWN, LT_ASM_AROUND };
/* The intermediate instruction whose code is at this place in a trace, or one of these constants. */
uint32_t lt_asm_ref(const struct lt_vm *vm, const struct lt_spot *spot);

/* Free what is kept of a state when it ends. */
void lt_asm_init(void);

#endif
