/* lua_states.c - inside the program: tell the tool where Lua states take their memory. (guest preload)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Wraps the functions that make and end Lua states, in whatever object they are. The tool observes the
 * allocator functions itself (lt_lua.c); all it needs from here is their addresses, before the first call.
 * LuaJIT's own allocator has no exported name: a scratch state, made and closed before the program's first
 * one in each LuaJIT image, shows its address. Nothing of the program's states is changed.
 *
 * It does not read LuaJIT's structures and knows no layout.
 */
#define _GNU_SOURCE
#include "../ljtrace.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

typedef void *alloc_function(void *ud, void *ptr, uintptr_t osize, uintptr_t nsize);
typedef alloc_function *get_allocator(void *L, void **ud);
typedef void close_state(void *L);

enum { MAX_IMAGES = 16 };

/* The few functions needed of the image that a Lua function belongs to. */
struct image {
    void *new_state; /* its luaL_newstate, original */
    get_allocator *getallocf;
    close_state *close;
};

static struct image s_images[MAX_IMAGES];
static unsigned s_count;
static volatile int s_lock;

static void lock(void)
{
    while (__sync_lock_test_and_set(&s_lock, 1))
        ;
}

static void unlock(void)
{
    __sync_lock_release(&s_lock);
}

/* What the dynamic linker allocates for us is not the program's. */
static void hide(int on)
{
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HIDE, on, 0, 0, 0, 0);
}

static void *symbol_beside(void *function, const char *name)
{
    Dl_info info;
    void *handle = NULL, *found = NULL;
    hide(1);
    if (dladdr(function, &info) && info.dli_fname)
        handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle) {
        found = dlsym(handle, name);
        dlclose(handle);
    }
    if (!found)
        found = dlsym(RTLD_DEFAULT, name);
    hide(0);
    return found;
}

static void watch(alloc_function *f, int internal)
{
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_WATCH_ALLOCATOR, f, internal, 0, 0, 0);
}

/* Make and close a state just to see what allocator this image's luaL_newstate uses. */
static void probe(const struct image *image, OrigFn fn)
{
    void *L, *ud;
    if (!image->getallocf || !image->close)
        return;
    CALL_FN_W_v(L, fn);
    if (!L)
        return;
    alloc_function *f = image->getallocf(L, &ud);
    image->close(L);
    watch(f, 1);
}

static void probe_once(void *new_state, OrigFn fn)
{
    lock();
    unsigned i = 0;
    while (i < s_count && s_images[i].new_state != new_state)
        i++;
    int first = i == s_count && s_count < MAX_IMAGES;
    if (first) {
        s_images[s_count].new_state = new_state;
        s_images[s_count].getallocf = (get_allocator *)symbol_beside(new_state, "lua_getallocf");
        s_images[s_count].close = (close_state *)symbol_beside(new_state, "lua_close");
        s_count++;
    }
    unlock();
    if (first)
        probe(&s_images[i], fn);
}

/* lua_State *luaL_newstate(void) */
void *I_WRAP_SONAME_FNNAME_ZZ(Za, luaL_newstate)(void);
void *I_WRAP_SONAME_FNNAME_ZZ(Za, luaL_newstate)(void)
{
    OrigFn fn;
    void *L;
    VALGRIND_GET_ORIG_FN(fn);
    probe_once((void *)fn.nraddr, fn);
    CALL_FN_W_v(L, fn);
    return L;
}

/* Small numbers are LuaJIT's way to say "your own allocator". */
static int is_function(void *f)
{
    return (uintptr_t)f >= 65536;
}

/* lua_State *lua_newstate(lua_Alloc f, void *ud) */
void *I_WRAP_SONAME_FNNAME_ZZ(Za, lua_newstate)(void *f, void *ud);
void *I_WRAP_SONAME_FNNAME_ZZ(Za, lua_newstate)(void *f, void *ud)
{
    OrigFn fn;
    void *L;
    VALGRIND_GET_ORIG_FN(fn);
    if (is_function(f))
        watch((alloc_function *)f, 0);
    CALL_FN_W_WW(L, fn, f, ud);
    return L;
}

/* void lua_setallocf(lua_State *L, lua_Alloc f, void *ud) */
void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_setallocf)(void *L, void *f, void *ud);
void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_setallocf)(void *L, void *f, void *ud)
{
    OrigFn fn;
    VALGRIND_GET_ORIG_FN(fn);
    if (is_function(f))
        watch((alloc_function *)f, 0);
    CALL_FN_v_WWW(fn, L, f, ud);
}

/* void lua_close(lua_State *L): what is left of the heap afterwards went with its arena. */
void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_close)(void *L);
void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_close)(void *L)
{
    OrigFn fn;
    void *ud = NULL;
    VALGRIND_GET_ORIG_FN(fn);
    get_allocator *getallocf = (get_allocator *)symbol_beside((void *)fn.nraddr, "lua_getallocf");
    if (getallocf)
        getallocf(L, &ud);
    CALL_FN_v_W(fn, L);
    if (ud)
        VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HEAP_CLOSED, ud, 0, 0, 0, 0);
}
