/* oddlua.c - a program whose LuaJIT looks like no LuaJIT there is.
 *
 * One of the API's functions that the recorder's calibration uses is made to return 0 always, so that it
 * cannot bring the machine into the situations by which it finds its way: to it this is a build of an unknown
 * layout. The program itself, and LuaJIT, do without that function. Two states run a script; marks `sum N`
 * tell what they hold then, and blocks of malloc of 7001 bytes surround it.
 *
 *     oddlua SCRIPT
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "../../ljtrace/ljtrace.h"

enum { PAGE = 4096 };

/* Write other code in the place of lua_tointeger. */
static void spoil(void)
{
    static const uint8_t code[] = {0x31, 0xc0, 0xc3}; /* return 0 */
    uint8_t *function = dlsym(RTLD_DEFAULT, "lua_tointeger");
    uint8_t *page = function - (uintptr_t)function % PAGE;
    if (!function || mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE)) {
        fprintf(stderr, "oddlua: lua_tointeger cannot be changed\n");
        exit(1);
    }
    memcpy(function, code, sizeof code);
    mprotect(page, 2 * PAGE, PROT_READ | PROT_EXEC);
}

static lua_State *start(const char *script)
{
    lua_State *L = luaL_newstate();
    if (L)
        luaL_openlibs(L);
    if (!L || luaL_dofile(L, script)) {
        fprintf(stderr, "oddlua: %s\n", L ? lua_tostring(L, -1) : "no state");
        exit(1);
    }
    return L;
}

static size_t held(lua_State *L)
{
    return (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB, 0);
}

int main(int argc, char **argv)
{
    char name[40];
    spoil();
    void *volatile around = malloc(7001);
    lua_State *first = start(argc > 1 ? argv[1] : "/dev/null"),
              *second = start(argc > 1 ? argv[1] : "/dev/null");
    snprintf(name, sizeof name, "sum %zu", held(first) + held(second));
    LJTRACE_MARK(name);
    lua_close(first);
    lua_close(second);
    free(around);
    return 0;
}
