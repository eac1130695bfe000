/* lua_parser.h - find the offset of the current line in the state of Lua's lexer. (in the program)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * An allocation that the parser makes has no Lua function to belong to; with this offset the tool can name
 * the line of the source text that is being parsed.
 */
#ifndef LJTRACE_CALIBRATE_LUA_PARSER_H
#define LJTRACE_CALIBRATE_LUA_PARSER_H

#include "ljtrace/calibrate/lua_calibrate.h"

/* Return the offset of the current line in the lexer's state; 0 = not found.
 * `known`: the rest of the layout. L: main thread of the scratch state. `f`, `ud`: its allocator. Not
 * reentrant. */
uint32_t lua_find_parser_line(const struct lua_api *api, void *L, const struct lua_layout *known,
                              alloc_function *f, void *ud);

#endif
