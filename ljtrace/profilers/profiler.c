/* profiler.c - what both profilers have in common.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/profilers/profiler.h"

#include <lua.h>

int profiler_fail(struct profiler_failure *failure, int status, int number, const char *why)
{
    *failure = (struct profiler_failure){why, number};
    return status;
}

/* -- before a state is closed -- */

static int on_close(lua_State *L)
{
    memprof_closing(L);
    sysprof_closing(L);
    return 0;
}

/* The object is in the registry under this address: to look for it makes no object, such as a string. */
static char s_key;

static bool is_watched(lua_State *L)
{
    lua_pushlightuserdata(L, &s_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    const bool found = !lua_isnil(L, -1);
    lua_pop(L, 1);
    return found;
}

/* Push the function that is running. */
static void push_self(lua_State *L)
{
    lua_Debug self;
    lua_getstack(L, 0, &self);
    lua_getinfo(L, "f", &self);
}

/* This function stays with the object: what is garbage now would be freed while the profiler runs. */
static int watch(lua_State *L)
{
    lua_pushlightuserdata(L, &s_key);
    lua_newuserdata(L, 1);
    lua_newtable(L);
    lua_pushcfunction(L, on_close);
    lua_setfield(L, -2, "__gc");
    push_self(L);
    lua_setfield(L, -2, "watch");
    lua_setmetatable(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
    return 0;
}

bool closing_watch(lua_State *L)
{
    const bool done = is_watched(L) || lua_cpcall(L, watch, NULL) == 0;
    if (!done)
        lua_pop(L, 1);
    return done;
}
