/* ir.h - find the intermediate instructions of a trace that create strings.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Some built-in functions create strings (`table.concat`) and some do not (`type`). The bytecode of a call
 * does not show which is called, but the intermediate instructions recorded for it do. Other objects are not
 * treated here, since the bytecode shows where they are created.
 */
#ifndef LJTRACE_LUAJIT_JIT_IR_H
#define LJTRACE_LUAJIT_JIT_IR_H

#include "ljtrace/luajit/core/states.h"
#include <stdint.h>

/* The intermediate instructions of a finished trace, numbered as in its snapshots. */
struct lt_ir {
    uint64_t at;  /* address of number 0 */
    uint32_t end; /* the last number + 1 */
};

/* The intermediate instructions of a trace. */
struct lt_ir lt_ir_of(const struct lt_vm *vm, uint64_t trace);
/* The opcode of the instruction that ends the concatenation recorded in [from, to); 0 = the range does not
 * end like a concatenation. */
uint32_t lt_ir_concatenation(const struct lt_ir *ir, uint32_t from, uint32_t to);
/* The instruction that marks the loop's start, after which the copies of recorded instructions follow; 0 =
 * there is none. */
uint32_t lt_ir_loop(const struct lt_ir *ir);
/* The instruction to which the memory access in the code of instruction `number` belongs: an operand whose
 * load is part of that code, or the instruction itself. */
uint32_t lt_ir_accessing(const struct lt_ir *ir, uint32_t number);
/* How many instructions in [from, to) create strings. concatenation: the opcode from lt_ir_concatenation. */
uint32_t lt_ir_strings(const struct lt_ir *ir, uint32_t from, uint32_t to, uint32_t concatenation);

#endif
