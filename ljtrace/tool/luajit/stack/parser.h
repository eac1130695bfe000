/* parser.h - which line of a chunk Lua's parser is at. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_TOOL_LUAJIT_STACK_PARSER_H
#define LJTRACE_TOOL_LUAJIT_STACK_PARSER_H

#include "ljtrace/tool/luajit/core/states.h"

/* The key of the line of the chunk that is being compiled (a frame of the virtual machine, with file and
 * line) if thread L compiles one just now; else 0. cframe: the innermost entry of the machine. */
Addr lt_parser_key(const struct lt_vm *vm, Addr L, Addr cframe);

#endif
