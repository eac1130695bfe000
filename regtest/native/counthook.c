/* counthook.c - Lua module: count what LuaJIT allocates, from inside the process that allocates it.
 *
 * The completeness case runs one script twice: natively with start(true), which puts a counting allocator
 * in front of LuaJIT's own, and under the recorder with start(false), which changes nothing. Both make the
 * same two sentinels, userdata of sizes that nothing else has, so that the trace can be cut where
 * the counting began and ended. One module for both, because a second one would itself allocate
 * differently and so shift the garbage collector's pace.
 *
 *     hook = require "counthook"
 *     hook.start(counting)   -- sentinel of COUNTHOOK_BEGIN bytes, then counts from 0
 *     hook.stop()            -- takes the counts, then a sentinel of COUNTHOOK_END bytes
 *     hook.report(path)      -- writes `name value` lines of the counts to a file
 *
 * It does not look into LuaJIT's structures: everything comes from lua_getallocf and lua_gc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>

/* Userdata sizes; the block LuaJIT asks for is a header larger. regtest/cases knows these numbers. */
#define COUNTHOOK_BEGIN 77711
#define COUNTHOOK_END 77713

static struct {
    uint64_t news, frees, resizes;
    uint64_t new_bytes, free_bytes, resize_bytes; /* requested; resize_bytes sums the new sizes */
    uint64_t live_bytes;                          /* all of the state, sentinel and older blocks too */
} s_count, s_result;

static lua_Alloc s_next;
static void *s_next_ud;
static bool s_counting;

static void count(const void *ptr, size_t osize, size_t nsize)
{
    if (ptr == NULL && nsize > 0) {
        s_count.news++;
        s_count.new_bytes += nsize;
    } else if (ptr != NULL && nsize == 0) {
        s_count.frees++;
        s_count.free_bytes += osize;
    } else if (ptr != NULL) {
        s_count.resizes++;
        s_count.resize_bytes += nsize;
    }
    s_count.live_bytes += nsize - (ptr != NULL ? osize : 0);
}

static void *counting_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    void *result = s_next(s_next_ud, ptr, osize, nsize);
    if (result != NULL || nsize == 0)
        count(ptr, osize, nsize);
    return result;
}

/* gc.total in bytes, as the state itself counts it */
static uint64_t gc_total(lua_State *L)
{
    return (uint64_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + (uint64_t)lua_gc(L, LUA_GCCOUNTB, 0);
}

static int hook_start(lua_State *L)
{
    s_counting = lua_toboolean(L, 1);
    lua_newuserdata(L, COUNTHOOK_BEGIN);
    s_count.live_bytes = gc_total(L);
    if (s_counting) {
        s_next = lua_getallocf(L, &s_next_ud);
        lua_setallocf(L, counting_alloc, NULL);
    }
    return 1; /* the caller keeps the sentinel alive */
}

static int hook_stop(lua_State *L)
{
    s_result = s_count;
    if (s_counting) {
        lua_setallocf(L, s_next, s_next_ud);
        if (s_result.live_bytes != gc_total(L))
            return luaL_error(L, "counthook: counted live bytes differ from the state's own");
    } else {
        s_result.live_bytes = gc_total(L);
    }
    lua_gc(L, LUA_GCSTOP, 0); /* or the sentinel's own allocation might first free others */
    lua_newuserdata(L, COUNTHOOK_END);
    return 1;
}

static int hook_report(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return luaL_error(L, "counthook: %s: %s", path, strerror(errno));
    fprintf(f, "news %ju\nfrees %ju\nresizes %ju\n", (uintmax_t)s_result.news, (uintmax_t)s_result.frees,
            (uintmax_t)s_result.resizes);
    fprintf(f, "new_bytes %ju\nfree_bytes %ju\nresize_bytes %ju\nlive_bytes %ju\n",
            (uintmax_t)s_result.new_bytes, (uintmax_t)s_result.free_bytes, (uintmax_t)s_result.resize_bytes,
            (uintmax_t)s_result.live_bytes);
    return fclose(f) == 0 ? 0 : luaL_error(L, "counthook: %s: %s", path, strerror(errno));
}

__attribute__((visibility("default"))) int luaopen_counthook(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"start", hook_start}, {"stop", hook_stop}, {"report", hook_report}, {NULL, NULL}};
    luaL_register(L, "counthook", functions);
    return 1;
}
