/* luaimages.c - a program with a LuaJIT linked into it, and with others that it loads and unloads.
 *
 *     luaimages [N LIBRARY...]   a state of its own runs a script as `own.lua`; then N times one library
 * after the other is loaded, a state of it runs the script as `loaded.lua`, and it is unloaded again. Before
 * every second time, other memory is mapped where the last one was
 *
 * It is linked without an export of its symbols. Marks `sum N` say how many bytes all its states hold then.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "../../ljtrace/ljtrace.h"

enum { LIBRARY_BYTES = 1 << 20 };

/* The functions of one LuaJIT. */
struct api {
    __typeof__(luaL_newstate) *newstate;
    __typeof__(luaL_openlibs) *openlibs;
    __typeof__(luaL_loadbuffer) *load;
    __typeof__(lua_pcall) *call;
    __typeof__(lua_gc) *gc;
    __typeof__(lua_close) *close;
};

static const char s_script[] = "local keep = {}\n"
                               "for i = 1, 2000 do\n"
                               "  keep[i] = {i}\n"
                               "end\n"
                               "return keep\n";

static void fail(const char *what)
{
    fprintf(stderr, "luaimages: %s\n", what);
    exit(1);
}

static void mark(size_t sum)
{
    char name[40];
    snprintf(name, sizeof name, "sum %zu", sum);
    LJTRACE_MARK(name);
}

/* A new state of that LuaJIT, in which the script has run. */
static lua_State *run(const struct api *api, const char *name)
{
    lua_State *L = api->newstate();
    if (!L)
        fail("no state");
    api->openlibs(L);
    if (api->load(L, s_script, sizeof s_script - 1, name) || api->call(L, 0, 1, 0))
        fail("the script does not run");
    return L;
}

static size_t held(const struct api *api, lua_State *L)
{
    return (size_t)api->gc(L, LUA_GCCOUNT, 0) * 1024 + (size_t)api->gc(L, LUA_GCCOUNTB, 0);
}

static struct api api_of(void *library)
{
    struct api api = {dlsym(library, "luaL_newstate"),   dlsym(library, "luaL_openlibs"),
                      dlsym(library, "luaL_loadbuffer"), dlsym(library, "lua_pcall"),
                      dlsym(library, "lua_gc"),          dlsym(library, "lua_close")};
    return api;
}

static void visit(const char *path, size_t others)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail(dlerror());
    struct api api = api_of(library);
    lua_State *L = run(&api, "@loaded.lua");
    mark(others + held(&api, L));
    api.close(L);
    mark(others);
    dlclose(library);
}

int main(int argc, char **argv)
{
    static const struct api own = {luaL_newstate, luaL_openlibs, luaL_loadbuffer,
                                   lua_pcall,     lua_gc,        lua_close};
    lua_State *L = run(&own, "@own.lua");
    int times = argc > 2 ? atoi(argv[1]) : 0;
    mark(held(&own, L));
    for (int i = 0; i < times; i++) {
        if (i % 2 && mmap(NULL, LIBRARY_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            fail("no room");
        visit(argv[2 + i % (argc - 2)], held(&own, L));
    }
    lua_close(L);
    mark(0);
    return 0;
}
