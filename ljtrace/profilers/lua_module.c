/* lua_module.c - require "ljtrace.misc": the profilers for Lua scripts, as tables `memprof` and `sysprof`.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * A function that fails returns nil, a message and a number of errno, as those of Lua's library io do.
 */
#define _GNU_SOURCE
#include "ljtrace/ljtrace-native.h"
#include "ljtrace/profilers/profiler.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, DEFAULT_INTERVAL = 10 };
#define DEFAULT_PATH "sysprof.bin"

/* Return nil, a message and the number of an error. path: what it is about; NULL = nothing. */
static int failed(lua_State *L, const char *path, const char *what, int number)
{
    lua_pushnil(L);
    if (path)
        lua_pushfstring(L, "%s: %s", path, what);
    else
        lua_pushstring(L, what);
    lua_pushinteger(L, number);
    return 3;
}

/* -- files -- */

/* Write all. Returns 0 on failure. */
static size_t write_all(int fd, const char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = write(fd, data + done, size - done);
        if (n < 0 && errno != EINTR)
            return 0;
        done += n > 0 ? (size_t)n : 0;
    }
    return size;
}

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* is_io: the path cannot be written. */
static int profiler_failed(lua_State *L, const struct profiler_failure *failure, bool is_io, const char *path)
{
    if (is_io && failure->number)
        return failed(L, path, strerror(failure->number), failure->number);
    return failed(L, NULL, failure->why, failure->number);
}

/* -- memprof -- */

static size_t write_memprof(const void *data, size_t size, void *arg)
{
    return write_all((int)(intptr_t)arg, data, size);
}

static int stop_memprof(void *arg)
{
    return close((int)(intptr_t)arg);
}

/* memprof.start(path [, seconds]) */
static int start_memprof(lua_State *L)
{
    const char *path = luaL_checkstring(L, 1);
    const lua_Number seconds = luaL_optnumber(L, 2, 0);
    if (!(seconds >= 0 && seconds < 1e9))
        return failed(L, NULL, "profiler misuse: the duration is not a number of seconds", EINVAL);
    memprof_end_if_due(L);
    if (luaM_memprof_isrunning()) /* the file may be the one that is being written */
        return failed(L, NULL, "profiler is running already", EINVAL);
    const int fd = open_file(path);
    if (fd < 0) {
        const int number = errno;
        return failed(L, path, strerror(number), number);
    }
    const struct luam_Prof_options options = {
        .arg = (void *)(intptr_t)fd, .writer = write_memprof, .on_stop = stop_memprof};
    const int status = memprof_start(L, &options, (uint64_t)ceil(seconds * 1e9));
    if (status != LUAM_PROFILE_SUCCESS) {
        close(fd);
        return profiler_failed(L, &memprof_failure, status == LUAM_PROFILE_ERRIO, path);
    }
    lua_pushboolean(L, 1);
    return 1;
}

static int memprof_stop(lua_State *L)
{
    const int status = luaM_memprof_stop(L);
    if (status != LUAM_PROFILE_SUCCESS)
        return profiler_failed(L, &memprof_failure, status == LUAM_PROFILE_ERRIO, "memprof");
    lua_pushboolean(L, 1);
    return 1;
}

static int memprof_is_running(lua_State *L)
{
    lua_pushboolean(L, luaM_memprof_isrunning());
    return 1;
}

/* -- sysprof -- */

/* Where a profile of a script goes. */
struct target {
    int fd;
    uint8_t buffer[BUFFER_BYTES];
};

static size_t write_sysprof(const void **data, size_t size, void *ctx)
{
    return write_all(((struct target *)ctx)->fd, *data, size);
}

static int stop_sysprof(void *ctx, uint8_t *buf)
{
    struct target *t = ctx;
    (void)buf;
    const int result = close(t->fd);
    const int number = errno;
    free(t);
    errno = number;
    return result;
}

/* The mode in field `mode` of the table. Returns -1 if it is none. */
static int mode_of(lua_State *L)
{
    static const char modes[] = "DLC";
    lua_getfield(L, 1, "mode");
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    const char *at = text[0] && !text[1] ? strchr(modes, text[0]) : NULL;
    lua_pop(L, 1);
    return at ? (int)(at - modes) : -1;
}

/* The interval in field `interval`; 0 if it is none. */
static uint64_t interval_of(lua_State *L)
{
    lua_getfield(L, 1, "interval");
    const lua_Number n = lua_isnil(L, -1) ? DEFAULT_INTERVAL : lua_tonumber(L, -1);
    lua_pop(L, 1);
    return n >= 1 && n < 1e9 ? (uint64_t)n : 0;
}

/* Open the file of field `path`. Returns NULL, with the results of the function pushed, if that is not possible. */
static struct target *open_target(lua_State *L, const char *path)
{
    struct target *t = malloc(sizeof *t);
    if (!t) {
        failed(L, NULL, "not enough memory", ENOMEM);
        return NULL;
    }
    t->fd = open_file(path);
    if (t->fd >= 0)
        return t;
    const int number = errno;
    free(t);
    failed(L, path, strerror(number), number);
    return NULL;
}

static int start_sysprof(lua_State *L, struct luam_Sysprof_Options *options, const char *path)
{
    struct target *t = NULL;
    if (options->mode != LUAM_SYSPROF_DEFAULT) {
        if (!(t = open_target(L, path)))
            return 3;
        options->ctx = t;
        options->buf = t->buffer;
        options->len = sizeof t->buffer;
    }
    luaM_sysprof_set_writer(write_sysprof);
    luaM_sysprof_set_on_stop(stop_sysprof);
    luaM_sysprof_set_backtracer(NULL);
    const int status = luaM_sysprof_start(L, options);
    if (status == PROFILE_SUCCESS) {
        lua_pushboolean(L, 1);
        return 1;
    }
    if (t) {
        close(t->fd);
        free(t);
    }
    return profiler_failed(L, &sysprof_failure, status == PROFILE_ERRIO, path);
}

/* sysprof.start{mode = "D"|"L"|"C", interval = milliseconds, path = file} */
static int sysprof_start(lua_State *L)
{
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    const int mode = mode_of(L);
    struct luam_Sysprof_Options options = {.mode = (uint8_t)mode, .interval = interval_of(L)};
    if (mode < 0)
        return failed(L, NULL, "profiler misuse: mode must be D, L or C", EINVAL);
    if (!options.interval)
        return failed(L, NULL, "profiler misuse: interval must be a number of milliseconds, 1 or more",
                      EINVAL);
    /* while the profiler runs, the file may be the one that it writes */
    if (luaM_sysprof_set_backtracer(NULL) != PROFILE_SUCCESS)
        return failed(L, NULL, "profiler is running already", EINVAL);
    lua_getfield(L, 1, "path");
    const char *path = lua_isnil(L, -1) ? DEFAULT_PATH : lua_tostring(L, -1);
    if (!path)
        return failed(L, NULL, "profiler misuse: path must be a string", EINVAL);
    return start_sysprof(L, &options, path);
}

static int sysprof_stop(lua_State *L)
{
    const int status = luaM_sysprof_stop(L);
    if (status != PROFILE_SUCCESS)
        return profiler_failed(L, &sysprof_failure, status == PROFILE_ERRIO, "sysprof");
    lua_pushboolean(L, 1);
    return 1;
}

/* sysprof.report() returns {samples = N, vmstate = {INTERP = N, ...}}. */
static int sysprof_report(lua_State *L)
{
    struct luam_Sysprof_Counters c;
    luaM_sysprof_report(&c);
    const struct {
        const char *name;
        uint64_t n;
    } states[] = {{"INTERP", c.vmst_interp}, {"LFUNC", c.vmst_lfunc}, {"FFUNC", c.vmst_ffunc},
                  {"CFUNC", c.vmst_cfunc},   {"GC", c.vmst_gc},       {"EXIT", c.vmst_exit},
                  {"RECORD", c.vmst_record}, {"OPT", c.vmst_opt},     {"ASM", c.vmst_asm},
                  {"TRACE", c.vmst_trace}};
    lua_newtable(L);
    lua_pushnumber(L, (lua_Number)c.samples);
    lua_setfield(L, -2, "samples");
    lua_newtable(L);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        lua_pushnumber(L, (lua_Number)states[i].n);
        lua_setfield(L, -2, states[i].name);
    }
    lua_setfield(L, -2, "vmstate");
    return 1;
}

/* -- the module -- */

static void put_functions(lua_State *L, const char *name, const luaL_Reg *functions)
{
    lua_newtable(L);
    for (; functions->name; functions++) {
        lua_pushcfunction(L, functions->func);
        lua_setfield(L, -2, functions->name);
    }
    lua_setfield(L, -2, name);
}

int luaopen_ljtrace_misc(lua_State *L);
void ljtrace_lua_register(lua_State *L);

__attribute__((visibility("default"))) int luaopen_ljtrace_misc(lua_State *L)
{
    static const luaL_Reg memprof[] = {
        {"start", start_memprof}, {"stop", memprof_stop}, {"is_running", memprof_is_running}, {NULL, NULL}};
    static const luaL_Reg sysprof[] = {
        {"start", sysprof_start}, {"stop", sysprof_stop}, {"report", sysprof_report}, {NULL, NULL}};
    lua_newtable(L);
    put_functions(L, "memprof", memprof);
    put_functions(L, "sysprof", sysprof);
    return 1;
}

/* Make the global `misc`, and the module known to `require` when the library `package` will be opened. */
static int put_into(lua_State *L)
{
    luaopen_ljtrace_misc(L);
    lua_setglobal(L, "misc");
    lua_newtable(L);
    lua_pushcfunction(L, luaopen_ljtrace_misc);
    lua_setfield(L, -2, "ljtrace.misc");
    lua_setfield(L, LUA_REGISTRYINDEX, "_PRELOAD");
    return 0;
}

/* For ljtrace run --lua-api: a state was created, and no library is open. If there is no memory, it remains as it is. */
__attribute__((visibility("default"))) void ljtrace_lua_register(lua_State *L)
{
    if (lua_cpcall(L, put_into, NULL))
        lua_pop(L, 1);
}
