/* ir.h - which intermediate instructions of a trace make strings. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Calls of built-in functions may make strings or none (`table.concat`, `type`): their bytecode does not
 * tell, the instructions that were recorded for them do. It does not look at what makes other objects: of
 * those the bytecode tells.
 */
#ifndef LJTRACE_TOOL_LUAJIT_JIT_IR_H
#define LJTRACE_TOOL_LUAJIT_JIT_IR_H

#include "ljtrace/tool/luajit/core/states.h"

/* The intermediate instructions of a finished trace, numbered as in its snapshots. */
struct lt_ir {
    Addr at;  /* of number 0 */
    UInt end; /* the first number behind the last */
};

struct lt_ir lt_ir_of(const struct lt_vm *vm, Addr trace);
/* The opcode that ends the concatenation recorded in [from, to); 0 = none is seen there to end like one. */
UInt lt_ir_concatenation(const struct lt_ir *ir, UInt from, UInt to);
/* The instruction that starts the loop proper, whose copies of what was recorded follow; 0 = there is none.
 */
UInt lt_ir_loop(const struct lt_ir *ir);
/* The instruction whose access the code of another makes: the operand that was loaded in it, not by itself;
 * else that other. */
UInt lt_ir_accessing(const struct lt_ir *ir, UInt number);
/* How many instructions in [from, to) make strings; `concatenation`: that opcode. */
UInt lt_ir_strings(const struct lt_ir *ir, UInt from, UInt to, UInt concatenation);

#endif
