/* assembler.h - which intermediate instruction each piece of a trace's machine code was made for. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A finished trace does not tell; the assembler at work does. It goes through the intermediate instructions
 * from the last to the first and writes machine code downwards: whenever it counts the instruction at hand
 * down, its pointer to the machine code is where that instruction's code ends. Its store to the count is seen
 * like the other stores that ljtrace/tool/luajit/state/vmstate.h is about.
 */
#ifndef LJTRACE_TOOL_LUAJIT_JIT_ASSEMBLER_H
#define LJTRACE_TOOL_LUAJIT_JIT_ASSEMBLER_H

#include "ljtrace/tool/luajit/core/states.h"

/* The machine begins to assemble; it goes on to something else. */
void lt_asm_begin(struct lt_vm *vm);
void lt_asm_end(struct lt_vm *vm);
/* Something was stored to that address while one of the states assembles. */
void lt_asm_store(struct lt_vm *vm, Addr a);
void lt_asm_free(struct lt_vm *vm);

/* What code around a trace is for: it brings the trace into its state, or leads on from its end. */
enum { LT_ASM_UNKNOWN, LT_ASM_AROUND };
/* The intermediate instruction whose code is at that place in a trace, or one of these. */
UInt lt_asm_ref(const struct lt_vm *vm, const struct lt_spot *spot);

#endif
