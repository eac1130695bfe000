/* loop_copies.h - find which recorded instruction the loop optimisation has copied.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_JIT_LOOP_COPIES_H
#define LJTRACE_LUAJIT_JIT_LOOP_COPIES_H

#include "ljtrace/luajit/jit/ir.h"
#include <stdint.h>

/* The recorded instruction of which instruction `number` of a trace is a copy, or in place of whose copy it
 * was made. The same number if it was recorded itself; 0 = not known, or the loop's start. */
uint32_t lt_copied_from(const struct lt_vm *vm, const struct lt_spot *spot, uint32_t number);

#endif
