/* lua_calibrate.h - find the offsets at which a build of LuaJIT keeps its state. (in the program)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Builds of one version differ in these offsets, so they are measured (lua_calibrate.c), not looked up. The
 * result, struct lua_layout, is what the tool needs to read Lua stacks. Only lua_global is used after the probe
 * of an image.
 */
#ifndef LJTRACE_CALIBRATE_LUA_CALIBRATE_H
#define LJTRACE_CALIBRATE_LUA_CALIBRATE_H

#include "ljtrace/protocol/lua_layout.h"
#include <stddef.h>

typedef void *alloc_function(void *ud, void *ptr, size_t osize, size_t nsize);
typedef int c_function(void *L);

/* The functions of one LuaJIT image. Only pointers, in the order of lua_api_names. */
struct lua_api {
    void *(*newstate)(void);
    alloc_function *(*getallocf)(void *L, void **ud);
    void (*close)(void *L);
    int (*setmode)(void *L, int index, int mode); /* only LuaJIT has it */
    void (*setallocf)(void *L, alloc_function *f, void *ud);
    void (*openlibs)(void *L);
    int (*loadbuffer)(void *L, const char *s, size_t n, const char *name);
    int (*pcall)(void *L, int args, int results, int handler);
    void (*pushcclosure)(void *L, c_function *f, int upvalues);
    const void *(*topointer)(void *L, int index);
    void (*settop)(void *L, int top);
    ptrdiff_t (*tointeger)(void *L, int index);
};
enum { LUA_API_FUNCTIONS = sizeof(struct lua_api) / sizeof(void *) };
extern const char *const lua_api_names[LUA_API_FUNCTIONS];

/* Read memory that may not be mapped. Returns 1 if all of it was read. The library that this code is linked into
 * defines it. */
int lua_peek(uint64_t at, void *to, size_t n);

/* Fill `to` by running a script in the scratch state L. No other code may use L; the caller closes it.
 * Not reentrant. This code runs once per image, so most of its cost is that Valgrind translates it: it is
 * compiled for size. */
__attribute__((cold)) void lua_calibrate(const struct lua_api *api, void *L, struct lua_layout *to);

/* The global state of a thread of the running program; 0 if the layout is not known. */
static inline uint64_t lua_global(const void *L, const struct lua_layout *layout)
{
    if (!layout->known)
        return 0;
    const char *at = (const char *)L + luajit_offsets((int)layout->gc64)->thread_global;
    return layout->gc64 ? *(const uint64_t *)at : *(const uint32_t *)at;
}

#endif
