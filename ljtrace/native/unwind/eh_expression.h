/* eh_expression.h - DWARF expressions in rules of .eh_frame.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * DWARF 5, section 2.5: a program for a stack of values. Expressions are the rules of frames that realign the stack, of
 * signal frames and of hand-written code.
 */
#ifndef LJTRACE_NATIVE_UNWIND_EH_EXPRESSION_H
#define LJTRACE_NATIVE_UNWIND_EH_EXPRESSION_H

#include "ljtrace/frames/eh_frame.h"
#include "ljtrace/native/unwind/stack_memory.h"

/* Registers of a frame, and which of them are known. */
struct eh_registers {
    uint64_t value[EH_REGISTERS];
    uint32_t known; /* bit i: value[i] is */
};

/* The expression whose length is at `expression`, with `first` as the first value on its stack (NULL: none). False: it
 * uses an unknown register or memory that cannot be read, or is damaged. */
bool eh_evaluate(struct eh_bytes expression, const struct eh_registers *registers,
                 struct stack_memory *memory, const uint64_t *first, uint64_t *result);

#endif
