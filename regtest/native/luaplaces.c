/* luaplaces.c - a program with LuaJIT inside that brings it to places that are hard to attribute.
 *
 *     luaplaces deep SCRIPT      the script's `deep(n)` makes a table under n functions of C, which call one
 *                                another; `deep(n, f)` calls f there
 *     luaplaces shared SCRIPT    three states of one allocator function with one pointer, NULL: one in a
 * thread of its own, one made and used inside a C function (`inner`) of another, all at a time. Each runs the
 * script, with the state's name as its argument
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "../../ljtrace/ljtrace.h"

static const char *s_script;

static void fail(const char *what)
{
    fprintf(stderr, "luaplaces: %s\n", what);
    exit(1);
}

/* -- deep -- */

__attribute__((noinline)) static int descend(lua_State *L, int n)
{
    volatile int here = n;
    if (n > 0)
        return descend(L, n - 1) + here - n;
    if (lua_isfunction(L, 2)) {
        lua_pushvalue(L, 2);
        lua_call(L, 0, 1);
    } else
        lua_createtable(L, 0, 0);
    return here + 1;
}

static int deep(lua_State *L)
{
    return descend(L, (int)lua_tointeger(L, 1)) ? 1 : 0;
}

/* Freed memory of all sizes, for the next requests. */
static void leave_dead_memory(void)
{
    enum { BLOCKS = 2000 };
    static void *volatile blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(16 + i);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static int run_deep(void)
{
    leave_dead_memory();
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    lua_register(L, "deep", deep);
    if (luaL_dofile(L, s_script))
        fail(lua_tostring(L, -1));
    lua_close(L);
    return 0;
}

/* -- shared -- */

static void *plain(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud, (void)osize;
    if (nsize)
        return realloc(ptr, nsize);
    free(ptr);
    return NULL;
}

static lua_State *begin(void)
{
    lua_State *L = lua_newstate(plain, NULL);
    if (!L)
        fail("no state");
    luaL_openlibs(L);
    return L;
}

static void run(lua_State *L, const char *name)
{
    if (luaL_loadfile(L, s_script))
        fail(lua_tostring(L, -1));
    lua_pushstring(L, name);
    if (lua_pcall(L, 1, 0, 0))
        fail(lua_tostring(L, -1));
}

/* A state in another's C function. */
static int inner(lua_State *outer)
{
    lua_State *L = begin();
    (void)outer;
    run(L, "inner");
    lua_close(L);
    return 0;
}

static pthread_barrier_t s_made;

static void *other(void *unused)
{
    lua_State *L = begin();
    (void)unused;
    pthread_barrier_wait(&s_made);
    run(L, "thread");
    pthread_barrier_wait(&s_made);
    lua_close(L);
    return NULL;
}

static size_t held(lua_State *L)
{
    return (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB, 0);
}

static int run_shared(void)
{
    pthread_t thread;
    char name[40];
    lua_State *L = begin();
    lua_register(L, "inner", inner);
    pthread_barrier_init(&s_made, NULL, 2);
    pthread_create(&thread, NULL, other, NULL);
    pthread_barrier_wait(&s_made);
    run(L, "main");
    pthread_barrier_wait(&s_made);
    pthread_join(thread, NULL);
    snprintf(name, sizeof name, "sum %zu", held(L));
    LJTRACE_MARK(name);
    lua_close(L);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        fail("usage: luaplaces deep|shared SCRIPT");
    s_script = argv[2];
    return strcmp(argv[1], "deep") == 0 ? run_deep() : run_shared();
}
