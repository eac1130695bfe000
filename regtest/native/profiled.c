/* profiled.c - use the functions of ljtrace-native.h, and print what they return.
 *
 *     profiled memprof FILE   statuses of memprof in all situations; FILE: a profile that lua_close has ended
 *     profiled sysprof FILE   the same of sysprof
 *     profiled leaf FILE      a profile in mode LEAF with a backtracer of our own
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "../../ljtrace/ljtrace-native.h"

/* What the callbacks do and have done. */
static struct {
    FILE *file;
    size_t refused_after; /* bytes; 0 = never */
    size_t bytes;
    int stop_status, stops;
} s;

static void say(const char *what, int status)
{
    printf("%s: %d, stopped %d\n", what, status, s.stops);
}

static size_t take(const void *data, size_t size)
{
    if (s.refused_after && s.bytes + size > s.refused_after)
        return 0;
    s.bytes += size;
    return s.file ? fwrite(data, 1, size, s.file) : size;
}

static size_t write_memory(const void *data, size_t size, void *arg)
{
    return arg == &s ? take(data, size) : 0;
}

static int stop_memory(void *arg)
{
    s.stops += arg == &s;
    return s.stop_status;
}

static lua_State *state(void)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    return L;
}

static void work(lua_State *L, const char *script)
{
    if (luaL_dostring(L, script))
        printf("%s\n", lua_tostring(L, -1));
}

static const char s_tables[] = "local t = {}\nfor i = 1, 50000 do\n  t[i % 100] = {i}\nend\n";

static void memprof(const char *path)
{
    struct luam_Prof_options o = {.arg = &s, .writer = write_memory, .on_stop = stop_memory};
    struct luam_Prof_options no_writer = {.arg = &s, .on_stop = stop_memory};
    struct luam_Prof_options no_stop = {.arg = &s, .writer = write_memory};
    lua_State *L = state(), *other = state();
    say("not running", luaM_memprof_stop(L));
    say("no options", luaM_memprof_start(L, NULL));
    say("no writer", luaM_memprof_start(L, &no_writer));
    say("no on_stop", luaM_memprof_start(L, &no_stop));
    say("started", luaM_memprof_start(L, &o));
    say("is running", luaM_memprof_isrunning());
    say("started twice", luaM_memprof_start(L, &o));
    say("another state", luaM_memprof_start(other, &o));
    say("stopped by another state", luaM_memprof_stop(other));
    work(L, s_tables);
    work(other, s_tables);
    say("stopped by a coroutine", luaM_memprof_stop(lua_newthread(L)));
    say("is running", luaM_memprof_isrunning());
    say("stopped twice", luaM_memprof_stop(L));
    s.refused_after = 4;
    say("writer fails at once", luaM_memprof_start(L, &o));
    s.refused_after = s.bytes + 100000;
    say("writer fails later: started", luaM_memprof_start(L, &o));
    work(L, s_tables);
    say("writer fails later: stopped", luaM_memprof_stop(L));
    s.refused_after = 0;
    s.stop_status = -1;
    say("on_stop fails: started", luaM_memprof_start(L, &o));
    say("on_stop fails: stopped", luaM_memprof_stop(L));
    s.stop_status = 0;
    s.file = fopen(path, "w");
    say("started", luaM_memprof_start(L, &o));
    work(L, s_tables);
    lua_close(L);
    fclose(s.file);
    say("closed: is running", luaM_memprof_isrunning());
    lua_close(other);
}

static size_t write_samples(const void **data, size_t size, void *ctx)
{
    return ctx == &s ? take(*data, size) : 0;
}

/* The writer for two buffers in turn. */
static uint8_t s_buffers[2][4096];
static size_t write_in_turn(const void **data, size_t size, void *ctx)
{
    const size_t written = write_samples(data, size, ctx);
    *data = *data == s_buffers[0] ? s_buffers[1] : s_buffers[0];
    return written;
}

static int stop_samples(void *ctx, uint8_t *buf)
{
    s.stops += ctx == &s && (buf == s_buffers[0] || buf == s_buffers[1]);
    return s.stop_status;
}

static const char s_burn[] =
    "local n, t = 0, os.clock()\nwhile os.clock() - t < 0.1 do n = n + #tostring(n) end\n";

/* Use the CPU until there are samples, at most 100 times. On a virtual machine that rarely runs, CPU time can pass
 * without a timer's tick. */
static void burn(lua_State *L)
{
    struct luam_Sysprof_Counters c;
    int times = 0;
    do
        work(L, s_burn);
    while (luaM_sysprof_report(&c) == 0 && c.samples <= 10 && ++times < 100);
}

static void report(void)
{
    struct luam_Sysprof_Counters c;
    printf("report: %d\n", luaM_sysprof_report(&c));
    const uint64_t sum = c.vmst_interp + c.vmst_lfunc + c.vmst_ffunc + c.vmst_cfunc + c.vmst_gc +
                         c.vmst_exit + c.vmst_record + c.vmst_opt + c.vmst_asm + c.vmst_trace;
    printf("samples: %s, sum: %s\n", c.samples > 10 ? "many" : "few",
           sum == c.samples ? "equal" : "different");
}

static void sysprof(const char *path)
{
    struct luam_Sysprof_Options o = {LUAM_SYSPROF_CALLGRAPH, 1, s_buffers[0], sizeof s_buffers[0], &s, 0};
    struct luam_Sysprof_Options counts = {.mode = LUAM_SYSPROF_DEFAULT, .interval = 1};
    struct luam_Sysprof_Options wrong;
    lua_State *L = state(), *other = state();
    say("not running", luaM_sysprof_stop(L));
    say("no callbacks", luaM_sysprof_start(L, &o));
    say("writer", luaM_sysprof_set_writer(write_in_turn));
    say("on_stop", luaM_sysprof_set_on_stop(stop_samples));
    say("no backtracer", luaM_sysprof_start(L, &o));
    say("backtracer", luaM_sysprof_set_backtracer(NULL));
    say("no options", luaM_sysprof_start(L, NULL));
    wrong = o, wrong.mode = 3;
    say("wrong mode", luaM_sysprof_start(L, &wrong));
    wrong = o, wrong.interval = 0;
    say("no interval", luaM_sysprof_start(L, &wrong));
    wrong = o, wrong.buf = NULL;
    say("no buffer", luaM_sysprof_start(L, &wrong));
    s.file = fopen(path, "w");
    say("started", luaM_sysprof_start(L, &o));
    say("started twice", luaM_sysprof_start(L, &o));
    say("another state", luaM_sysprof_start(other, &o));
    say("stopped by another state", luaM_sysprof_stop(other));
    say("a writer while it runs", luaM_sysprof_set_writer(write_samples));
    burn(L);
    say("stopped", luaM_sysprof_stop(L));
    fclose(s.file);
    s.file = NULL;
    report();
    say("stopped twice", luaM_sysprof_stop(L));
    say("counts: started", luaM_sysprof_start(L, &counts));
    burn(L);
    say("counts: stopped", luaM_sysprof_stop(L));
    report();
    s.refused_after = 4;
    say("writer fails at once", luaM_sysprof_start(L, &o));
    s.refused_after = 0;
    s.stop_status = -1;
    say("on_stop fails: started", luaM_sysprof_start(L, &o));
    say("on_stop fails: stopped", luaM_sysprof_stop(L));
    s.stop_status = 0;
    say("closed: started", luaM_sysprof_start(L, &o));
    lua_close(L);
    say("closed", luaM_sysprof_stop(other));
    lua_close(other);
}

static void backtrace_two(void *(*frame_writer)(int frame_no, void *addr))
{
    for (int i = 0; i < 2 && frame_writer(i, (void *)(0x1000 + (size_t)i)); i++)
        ;
}

static void leaf(const char *path)
{
    struct luam_Sysprof_Options o = {LUAM_SYSPROF_LEAF, 1, s_buffers[0], sizeof s_buffers[0], &s, 0};
    lua_State *L = state();
    s.file = fopen(path, "w");
    luaM_sysprof_set_writer(write_samples);
    luaM_sysprof_set_on_stop(stop_samples);
    luaM_sysprof_set_backtracer(backtrace_two);
    work(L, "require('jit').off()");
    say("started", luaM_sysprof_start(L, &o));
    burn(L);
    say("stopped", luaM_sysprof_stop(L));
    fclose(s.file);
    lua_close(L);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "memprof") == 0)
        memprof(argv[2]);
    else if (strcmp(argv[1], "sysprof") == 0)
        sysprof(argv[2]);
    else
        leaf(argv[2]);
    return 0;
}
