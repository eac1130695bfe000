/* luastates.c - states that share what identifies an allocator, states that follow one another, and ends of a program after
 * which no state allocates again.
 *
 *     luastates shared|null|again|arena END
 *         shared  three states with one allocator function and pointer, which allocate in turns
 *         null    the same with the pointer NULL, one of them with another function
 *         again   ten states, each closed before the next one begins; the last one stays
 *         arena   a state whose memory is taken from a block of 8 MiB of malloc, most of which is never used
 *
 *     Prints the bytes that each state holds that is still open. The last thing that each of them has made is a table.
 *     END: exit, _exit, exec, fork (the child ends by _exit), kill (a mark, then SIGKILL).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "../../ljtrace/ljtrace.h"

enum { SHARING = 3, FOLLOWING = 10, ARENA = 8 << 20 };

static lua_State *s_state[SHARING];
static int s_states;

static void fail(const char *what)
{
    fprintf(stderr, "luastates: %s\n", what);
    exit(1);
}

static void *one(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud, (void)osize;
    if (nsize)
        return realloc(ptr, nsize);
    free(ptr);
    return NULL;
}

static void *other(void *ud, void *ptr, size_t osize, size_t nsize)
{
    void *moved = nsize ? one(ud, NULL, 0, nsize) : NULL;
    if (moved && ptr)
        memcpy(moved, ptr, osize < nsize ? osize : nsize);
    free(ptr);
    return moved;
}

static void *from_arena(void *ud, void *ptr, size_t osize, size_t nsize)
{
    static size_t used;
    if (nsize <= osize && ptr)
        return nsize ? ptr : NULL;
    char *const at = (char *)ud + used;
    used += (nsize + 15) & ~(size_t)15;
    if (used > ARENA)
        fail("the arena is full");
    return ptr ? memcpy(at, ptr, osize) : at;
}

static lua_State *begin(lua_Alloc allocator, void *ud)
{
    lua_State *L = lua_newstate(allocator, ud);
    if (!L)
        fail("no state");
    luaL_openlibs(L);
    lua_newtable(L);
    lua_setglobal(L, "keep");
    return L;
}

/* Make this many tables, each in a new slot of a table; the last thing made is a table. */
static void work(lua_State *L, int tables)
{
    lua_getglobal(L, "keep");
    for (int i = (int)lua_objlen(L, -1), end = i + tables; i < end; i++) {
        lua_pushboolean(L, 1);
        lua_rawseti(L, -2, i + 1);
        lua_newtable(L);
        lua_rawseti(L, -2, i + 1);
    }
    lua_pop(L, 1);
}

static void share(lua_Alloc third, void *ud)
{
    for (s_states = 0; s_states < SHARING; s_states++)
        s_state[s_states] = begin(s_states == 2 ? third : one, ud);
    for (int turn = 1; turn <= 5; turn++)
        for (int i = 0; i < SHARING; i++)
            work(s_state[i], turn * (20 * i + 30));
}

static void follow(void)
{
    static int any;
    for (int i = 0; i < FOLLOWING; i++) {
        s_state[0] = begin(one, &any);
        work(s_state[0], 50);
        if (i + 1 < FOLLOWING)
            lua_close(s_state[0]);
    }
    s_states = 1;
}

static void use_arena(void)
{
    s_state[0] = begin(from_arena, malloc(ARENA));
    work(s_state[0], 500);
    s_states = 1;
}

static void print_sums(void)
{
    for (int i = 0; i < s_states; i++)
        printf("%d\n", lua_gc(s_state[i], LUA_GCCOUNT, 0) * 1024 + lua_gc(s_state[i], LUA_GCCOUNTB, 0));
    fflush(stdout);
}

static int end(const char *how)
{
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "exec") == 0)
        execl("/bin/true", "true", NULL);
    if (strcmp(how, "fork") == 0) {
        const pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    if (strcmp(how, "kill") == 0) {
        LJTRACE_MARK("the end");
        raise(SIGKILL);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static int any;
    const char *what = argc == 3 ? argv[1] : "";
    if (strcmp(what, "shared") == 0)
        share(one, &any);
    else if (strcmp(what, "null") == 0)
        share(other, NULL);
    else if (strcmp(what, "again") == 0)
        follow();
    else if (strcmp(what, "arena") == 0)
        use_arena();
    else
        fail("shared, null, again or arena, and an end");
    print_sums();
    return end(argv[2]);
}
