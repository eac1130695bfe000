/* closing.c - stop the profilers before a state is closed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/profilers/closing.h"
#include "ljtrace/profilers/memprof.h"
#include "ljtrace/profilers/sysprof.h"

#include <lua.h>

#define SENTINEL "ljtrace.profilers"

static int on_close(lua_State *L)
{
    memprof_closing(L);
    sysprof_closing(L);
    return 0;
}

static int watch(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, SENTINEL);
    if (!lua_isnil(L, -1))
        return 0;
    lua_newuserdata(L, 1);
    lua_newtable(L);
    lua_pushcfunction(L, on_close);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, SENTINEL);
    return 0;
}

bool closing_watch(lua_State *L)
{
    const bool done = lua_cpcall(L, watch, NULL) == 0;
    if (!done)
        lua_pop(L, 1);
    return done;
}
