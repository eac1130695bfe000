/* counthook.c - Lua module: count what LuaJIT allocates, from inside the process that allocates it.
 *
 * start(true) puts a counting allocator in front of LuaJIT's own; start(false) changes nothing. Both make the
 * same two sentinels, userdata of sizes that nothing else has, so that a trace can be cut where the counting
 * began and ended. One module for both, because a second one would itself allocate differently and so shift
 * the garbage collector's pace.
 *
 * start(true, PATH) writes each call down besides, four native 64-bit numbers: pointer, old size, new size,
 * result. They go into a shared mapping, which is no heap: so the truth and the trace can be of one and the
 * same run. Two runs of the JIT compiler differ by where things lie and by its own dice.
 *
 *     hook = require "counthook"
 *     hook.start(counting, path)   -- sentinel of COUNTHOOK_BEGIN bytes, then counts from 0
 *     hook.stop()                  -- reads the counts, then a sentinel of COUNTHOOK_END bytes
 *     hook.report(path)            -- writes `name value` lines of the counts to a file
 *
 * It does not look into LuaJIT's structures: everything comes from lua_getallocf and lua_gc.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* The calls, if they are written down. */
struct call {
    uint64_t ptr, osize, nsize, result;
};
enum { MOST_CALLS = 1 << 21 };
static struct call *s_calls;
static size_t s_used;
static int s_file = -1;

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

static void write_down(const void *ptr, size_t osize, size_t nsize, const void *result)
{
    if (s_calls != NULL && s_used < MOST_CALLS)
        s_calls[s_used++] = (struct call){(uintptr_t)ptr, osize, nsize, (uintptr_t)result};
}

static void *counting_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    void *result = s_next(s_next_ud, ptr, osize, nsize);
    if (result != NULL || nsize == 0) {
        count(ptr, osize, nsize);
        write_down(ptr, osize, nsize, result);
    }
    return result;
}

/* gc.total in bytes, as the state itself counts it */
static uint64_t gc_total(lua_State *L)
{
    return (uint64_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + (uint64_t)lua_gc(L, LUA_GCCOUNTB, 0);
}

static void open_calls(lua_State *L, const char *path)
{
    const off_t size = MOST_CALLS * sizeof *s_calls;
    s_file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (s_file < 0 || ftruncate(s_file, size) != 0)
        luaL_error(L, "counthook: %s: %s", path, strerror(errno));
    s_calls = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, s_file, 0);
    if (s_calls == MAP_FAILED)
        luaL_error(L, "counthook: %s: %s", path, strerror(errno));
}

static void close_calls(lua_State *L)
{
    if (s_calls == NULL)
        return;
    if (s_used == MOST_CALLS || ftruncate(s_file, (off_t)(s_used * sizeof *s_calls)) != 0)
        luaL_error(L, "counthook: the calls cannot all be written down");
    close(s_file);
}

static int hook_start(lua_State *L)
{
    s_counting = lua_toboolean(L, 1);
    if (lua_isstring(L, 2))
        open_calls(L, lua_tostring(L, 2));
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
        close_calls(L);
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
