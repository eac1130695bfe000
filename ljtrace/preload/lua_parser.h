/* lua_parser.h - find where Lua's lexer keeps the line it is at. (guest preload)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LJTRACE_LUA_PARSER_H
#define LJTRACE_LUA_PARSER_H

#include "ljtrace/preload/lua_calibrate.h"

/* Offset of the line in the lexer's state; 0 = not found. `known`: all the rest. L: main thread of the
 * scratch state, whose allocator is `f` with `ud`. Not reentrant. */
uint32_t lua_find_parser_line(const struct lua_api *api, void *L, const struct lua_layout *known,
                              alloc_function *f, void *ud);

#endif
