/* parser.h - find the line of a chunk that Lua's parser is at.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUAJIT_STACK_PARSER_H
#define LJTRACE_LUAJIT_STACK_PARSER_H

#include "ljtrace/luajit/core/states.h"
#include <stdint.h>

/* If thread L is parsing a chunk, return the key of the current line (a frame of the virtual machine with
 * file and line), else 0. cframe: the innermost C frame of the VM. */
uint64_t lt_parser_key(const struct lt_vm *vm, uint64_t L, uint64_t cframe);

#endif
