/* luajit.c - driver for LuaJIT's own allocator (lj_alloc), as used by a Lua state.
 *
 * The driver creates a new Lua state and gets its allocator function with lua_getallocf. The state remains in the
 * heap, as in every program that uses Lua, and counts as overhead. No Lua code is run. The library's calls of mmap,
 * munmap and mremap are served from the heap.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#include "drivers/sdk/driver.h"

#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>

static lua_State *s_lua;
static lua_Alloc s_alloc;
static void *s_arena;

static bool lj_init(void *base, size_t size)
{
    s_lua = luaL_newstate();
    if (!s_lua)
        return false;
    s_alloc = lua_getallocf(s_lua, &s_arena);
    return true;
}

static void lj_destroy(void)
{
    lua_close(s_lua);
}

/* LuaJIT's allocator ignores the old size that a lua_Alloc gets, except that 0 means "no block". */
static void *lj_malloc(size_t size, uint32_t id)
{
    return s_alloc(s_arena, NULL, 0, size);
}

static void lj_free(void *ref, uint32_t id)
{
    s_alloc(s_arena, ref, 1, 0);
}

static void *lj_realloc(void *ref, size_t size, uint32_t id)
{
    return s_alloc(s_arena, ref, 1, size);
}

/* A block's header is one word, the size of its chunk, as in dlmalloc, from which this allocator is derived. */
static size_t lj_header(void *ref)
{
    return sizeof(size_t);
}

static const char *lj_package(void)
{
    return LUAJIT_VERSION;
}

const struct steve_driver steve_driver = {
    .version = STEVE_DRIVER_VERSION,
    .size = sizeof steve_driver,
    .name = "luajit",
    .description = "LuaJIT's own allocator, of a fresh Lua state (Debian: libluajit-5.1-2)",
    .confinement = STEVE_BY_SYMBOLS,
    .flags = STEVE_ALIGNS_TO_8,
    .least_heap = (size_t)256 << 10,
    .package = lj_package,
    .init = lj_init,
    .destroy = lj_destroy,
    .malloc = lj_malloc,
    .free = lj_free,
    .realloc = lj_realloc,
    .header = lj_header,
};
