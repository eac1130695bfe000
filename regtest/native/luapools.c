/* luapools.c - a Lua state whose allocator declares its blocks as a pool's, by the pointer that Lua hands it
 * too.
 *
 * The allocator counts what Lua asks of it: the blocks are Lua's, each once, and the pool's pieces under them
 * are their raw material. The pool is used outside of Lua as well, for OWN blocks. Prints News, frees and
 * resizes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/ljtrace.h"
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADER = 16, OWN = 5, OWN_SIZE = 4321 };

static struct pool {
    long made, freed, resized;
} s_pool;

static char *take(struct pool *pool, size_t size)
{
    char *piece = malloc(size + HEADER);
    if (piece == NULL)
        return NULL;
    LJTRACE_POOL_ALLOC(pool, piece + HEADER, size);
    return piece + HEADER;
}

static void give_back(struct pool *pool, char *piece)
{
    LJTRACE_POOL_FREE(pool, piece);
    free(piece - HEADER);
}

static char *change(struct pool *pool, char *old, size_t size)
{
    char *piece = realloc(old - HEADER, size + HEADER);
    if (piece == NULL)
        return NULL;
    LJTRACE_POOL_RESIZE(pool, old, piece + HEADER, size);
    return piece + HEADER;
}

static void *allocate(void *ud, void *old, size_t old_size, size_t size)
{
    struct pool *pool = ud;
    (void)old_size;
    if (size == 0 && old != NULL) {
        pool->freed++;
        give_back(pool, old);
    }
    if (size == 0)
        return NULL;
    pool->made += old == NULL;
    pool->resized += old != NULL;
    return old ? change(pool, old, size) : take(pool, size);
}

int main(void)
{
    char *own[OWN];
    LJTRACE_POOL_CREATE(&s_pool, "mine");
    lua_State *L = lua_newstate(allocate, &s_pool);
    if (L == NULL)
        return 1;
    for (int i = 0; i < OWN; i++)
        own[i] = take(&s_pool, OWN_SIZE);
    luaL_openlibs(L);
    if (luaL_dostring(L, "local t = {} for i = 1, 2000 do t[i % 50] = {i, tostring(i)} end") != 0)
        return 1;
    for (int i = 0; i < OWN; i++)
        give_back(&s_pool, own[i]);
    lua_close(L);
    LJTRACE_POOL_DESTROY(&s_pool);
    printf("new %ld\nfree %ld\nresize %ld\n", s_pool.made, s_pool.freed, s_pool.resized);
    return 0;
}
