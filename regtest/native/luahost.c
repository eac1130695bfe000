/* luahost.c - a program with LuaJIT inside that knows what the recorder must report.
 *
 *     luahost lines SCRIPT LOG   run a script in a state with an allocator function of our own, which asks
 *                                lua_getinfo at each new block; LOG: `size line...` for each, the lines of
 *                                all Lua functions on the running thread's stack, innermost first
 *     luahost sums               marks `sum N` in the trace: N bytes are all that the live states hold now.
 *                                Allocators of our own and LuaJIT's, changed in mid-flight, out of memory,
 *                                coroutines that die suspended, states in threads
 *
 * A thread of Lua that runs is known by `here()`, which scripts call whenever another one goes on.
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
#include <luajit.h>
#include <lualib.h>

#include "../../ljtrace/ljtrace.h"

enum { MAX_LOG = 1 << 20, MAX_LINES = 20, THREADS = 3 };

static struct {
    size_t size;
    int count, line[MAX_LINES];
} s_log[MAX_LOG];
static size_t s_logged;
static lua_State *s_running; /* NULL = not yet known */

/* An allocator's account. */
struct account {
    size_t used, room;
};

static void fail(const char *what)
{
    fprintf(stderr, "luahost: %s\n", what);
    exit(1);
}

/* The lines of Lua functions, as debug.traceback would print them; how many. */
static int current_lines(lua_State *L, int *line)
{
    lua_Debug ar;
    int n = 0;
    for (int level = 0; L && n < MAX_LINES && lua_getstack(L, level, &ar); level++)
        if (lua_getinfo(L, "Sl", &ar) && ar.currentline > 0)
            line[n++] = ar.currentline;
    return n;
}

static void *logging(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud, (void)osize;
    if (nsize == 0) {
        free(ptr);
        return NULL;
    }
    if (!ptr && s_logged < MAX_LOG) {
        s_log[s_logged].size = nsize;
        s_log[s_logged].count = current_lines(s_running, s_log[s_logged].line);
        s_logged++;
    }
    return realloc(ptr, nsize);
}

static int here(lua_State *L)
{
    s_running = L;
    return 0;
}

static void *accounting(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct account *a = ud;
    size_t used = a->used - (ptr ? osize : 0) + nsize;
    if (nsize > (ptr ? osize : 0) && used > a->room)
        return NULL;
    a->used = used;
    if (nsize)
        return realloc(ptr, nsize);
    free(ptr);
    return NULL;
}

static void run(lua_State *L, const char *code)
{
    if (luaL_dostring(L, code))
        fail(lua_tostring(L, -1));
}

static void write_log(FILE *log)
{
    for (size_t i = 0; i < s_logged; i++) {
        fprintf(log, "%zu", s_log[i].size);
        for (int k = 0; k < s_log[i].count; k++)
            fprintf(log, " %d", s_log[i].line[k]);
        fprintf(log, "\n");
    }
}

static int run_lines(const char *script, const char *path)
{
    lua_State *L = lua_newstate(logging, &s_logged);
    FILE *log = fopen(path, "w");
    if (!L || !log)
        fail("no state, or no file");
    luaL_openlibs(L);
    luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
    lua_register(L, "here", here);
    s_running = L;
    if (luaL_dofile(L, script))
        fail(lua_tostring(L, -1));
    s_running = NULL;
    write_log(log);
    fclose(log);
    lua_close(L);
    return 0;
}

static size_t held(lua_State *L)
{
    return (size_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB, 0);
}

static void mark(size_t sum)
{
    char name[40];
    snprintf(name, sizeof name, "sum %zu", sum);
    LJTRACE_MARK(name);
}

static lua_State *begin(lua_State *L)
{
    if (!L)
        fail("no state");
    luaL_openlibs(L);
    return L;
}

static const char s_work[] = "keep = keep or {}\n"
                             "for i = 1, 3000 do keep[#keep % 500 + 1] = {tostring(i), i} end\n"
                             "for i = 1, 200 do keep[i] = coroutine.wrap(function(a) local b = {a} "
                             "coroutine.yield(b) end); keep[i](i) end\n"
                             "for i = 1, 100 do keep[i] = nil end collectgarbage()\n";

static void sum_of_own_allocator(void)
{
    struct account first = {.room = SIZE_MAX}, second = {.room = SIZE_MAX};
    lua_State *L = begin(lua_newstate(accounting, &first));
    run(L, s_work);
    mark(held(L));
    second.used = first.used;
    lua_setallocf(L, accounting, &second);
    run(L, s_work);
    mark(held(L));
    second.room = second.used + 100000;
    if (!luaL_dostring(L, "local t = {} for i = 1, 1e7 do t[i] = {i} end"))
        fail("the memory was not limited");
    mark(held(L));
    second.room = SIZE_MAX;
    run(L, s_work);
    mark(held(L));
    lua_close(L);
    mark(0);
}

static void sum_of_built_in_allocator(void)
{
    lua_State *L = begin(luaL_newstate());
    run(L, s_work);
    mark(held(L));
    lua_close(L);
    mark(0);
}

static pthread_barrier_t s_worked, s_summed;

static void *work(void *at)
{
    lua_State **L = at;
    *L = begin(luaL_newstate());
    run(*L, s_work);
    pthread_barrier_wait(&s_worked);
    pthread_barrier_wait(&s_summed);
    lua_close(*L);
    return NULL;
}

static void sum_of_threads(void)
{
    pthread_t thread[THREADS];
    lua_State *L[THREADS];
    size_t sum = 0;
    pthread_barrier_init(&s_worked, NULL, THREADS + 1);
    pthread_barrier_init(&s_summed, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, &L[i]);
    pthread_barrier_wait(&s_worked);
    for (int i = 0; i < THREADS; i++)
        sum += held(L[i]);
    mark(sum);
    pthread_barrier_wait(&s_summed);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    mark(0);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "lines") == 0)
        return run_lines(argv[2], argv[3]);
    if (argc != 2 || strcmp(argv[1], "sums") != 0)
        fail("usage: luahost lines SCRIPT LOG | luahost sums");
    sum_of_own_allocator();
    sum_of_built_in_allocator();
    sum_of_threads();
    return 0;
}
