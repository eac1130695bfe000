/* lua_states.c - inside the program: tell the tool where Lua states take their memory. (guest preload)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Wraps the functions that make and end Lua states, in whatever object they are. The tool observes the
 * allocator functions itself (lt_lua.c); all it needs from here is their addresses, before the first call.
 * LuaJIT's own allocator has no exported name: a scratch state, made and closed before the program's first
 * one in each LuaJIT image, shows its address, and serves to find where that build keeps its state
 * (lua_calibrate.c). Nothing of the program's states is changed.
 */
#define _GNU_SOURCE
#include "../ljtrace.h"
#include "lua_calibrate.h"
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_IMAGES = 16 };

/* The functions needed of the image that a Lua function belongs to. */
struct image {
    const char *object; /* where it was loaded from */
    struct lua_api api;
    struct lua_layout layout;
    alloc_function *own; /* LuaJIT's own allocator; NULL = not known */
};

static struct image s_images[MAX_IMAGES];
static unsigned s_count;
static volatile int s_lock;
static volatile uintptr_t s_prober; /* the thread that holds the lock */

static void lock(void)
{
    while (__sync_lock_test_and_set(&s_lock, 1))
        ;
    s_prober = (uintptr_t)__builtin_thread_pointer();
}

static void unlock(void)
{
    s_prober = 0;
    __sync_lock_release(&s_lock);
}

/* Calls that the probe makes arrive at the wrappers as well: they are let through. */
static int is_probing(void)
{
    return s_lock && s_prober == (uintptr_t)__builtin_thread_pointer();
}

static int errno_now(void)
{
    return *__errno_location();
}

static void restore_errno(int error)
{
    *__errno_location() = error;
}

/* What the dynamic linker allocates for us is not the program's. */
static void hide(int on)
{
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HIDE, on, 0, 0, 0, 0);
}

/* Where to look for the symbols of an object: the global scope if its Lua is the one that is found there, as
 * that of the program itself always is (dlopen would search the disk for its name); else a handle, to be
 * closed. */
static void *scope_of(const char *object)
{
    Dl_info info;
    void *f = dlsym(RTLD_DEFAULT, "lua_getallocf");
    if (f && dladdr(f, &info) && info.dli_fname == object)
        return RTLD_DEFAULT;
    return dlopen(object, RTLD_LAZY | RTLD_NOLOAD);
}

/* The functions of an object. False if one is missing: this is another Lua, or none. */
static int find_api(const char *object, struct lua_api *api)
{
    static const char *const names[] = {"luaL_newstate", "lua_getallocf",    "lua_setallocf",
                                        "lua_close",     "luaL_openlibs",    "luaL_loadbuffer",
                                        "lua_pcall",     "lua_pushcclosure", "lua_topointer",
                                        "lua_settop",    "lua_tointeger",    "luaJIT_setmode"};
    void **to[] = {(void **)&api->newstate, (void **)&api->getallocf,    (void **)&api->setallocf,
                   (void **)&api->close,    (void **)&api->openlibs,     (void **)&api->loadbuffer,
                   (void **)&api->pcall,    (void **)&api->pushcclosure, (void **)&api->topointer,
                   (void **)&api->settop,   (void **)&api->tointeger,    (void **)&api->setmode};
    int all = 1;
    void *scope = scope_of(object);
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        *to[i] = dlsym(scope, names[i]);
        all &= *to[i] != NULL;
    }
    if (scope)
        dlclose(scope);
    return all;
}

/* 1 if the tool wants to know where the image keeps its state. */
static uint32_t watch(alloc_function *f, enum lua_allocator whose, const struct image *image)
{
    return (uint32_t)VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_WATCH_ALLOCATOR, f, whose,
                                                     image ? image - s_images + 1 : 0, 0, 0);
}

/* The global state of a thread; 0 = the layout is not known. */
static uint64_t global_of(void *L, const struct image *image)
{
    if (!image->layout.known)
        return 0;
    return image->layout.gc64 ? *(uint64_t *)((char *)L + 16) : *(uint32_t *)((char *)L + 8);
}

/* A state is there: the tool may not have seen how it was made. L: any thread of it. */
static void announce(void *L, const struct image *image)
{
    void *ud = NULL;
    if (!L || !image || !image->layout.known)
        return;
    uint64_t g = global_of(L, image);
    image->api.getallocf(L, &ud);
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_LUA_STATE, g, ud, image - s_images + 1, 0, 0);
}

/* The known image of a function; NULL. *object: where that function is. */
static struct image *image_of(void *function, const char **object)
{
    Dl_info info;
    *object = dladdr(function, &info) ? info.dli_fname : NULL;
    for (unsigned i = 0; i < s_count; i++)
        if (s_images[i].object == *object)
            return &s_images[i];
    return NULL;
}

/* Make a state just to see what allocator this image's luaL_newstate uses and where it keeps its state. */
static void probe(struct image *image)
{
    const struct lua_api *api = &image->api;
    void *L, *ud;
    if (!api->newstate || !api->getallocf || !api->close || !(L = api->newstate()))
        return;
    image->own = api->getallocf(L, &ud);
    /* first: what runs next need not be translated twice */
    image->layout.known &=
        watch(image->own, ud ? LUA_ALLOCATOR_OWN : LUA_ALLOCATOR_OWN_ENDING_ANYWHERE, image);
    if (image->layout.known)
        lua_calibrate(api, L, &image->layout);
    api->close(L);
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_LUA_LAYOUT, &image->layout, image - s_images + 1,
                                    image->object, 0, 0);
}

/* The image of a Lua function, probed at the first time. */
static struct image *know(void *function)
{
    const char *object;
    struct image *image;
    int error = errno_now();
    lock();
    hide(1);
    image = image_of(function, &object);
    if (!image && object && s_count < MAX_IMAGES) {
        image = &s_images[s_count++];
        image->object = object;
        image->layout.known = (uint32_t)find_api(object, &image->api);
        probe(image);
    }
    hide(0);
    unlock();
    restore_errno(error);
    return image;
}

/* lua_State *luaL_newstate(void) */
void *I_WRAP_SONAME_FNNAME_ZZ(Za, luaL_newstate)(void);
void *I_WRAP_SONAME_FNNAME_ZZ(Za, luaL_newstate)(void)
{
    OrigFn fn;
    void *L;
    VALGRIND_GET_ORIG_FN(fn);
    if (is_probing()) {
        CALL_FN_W_v(L, fn);
        return L;
    }
    struct image *image = know((void *)fn.nraddr);
    CALL_FN_W_v(L, fn);
    announce(L, image);
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
    if (is_probing()) {
        CALL_FN_W_WW(L, fn, f, ud);
        return L;
    }
    struct image *image = know((void *)fn.nraddr);
    if (is_function(f))
        watch((alloc_function *)f, LUA_ALLOCATOR_PROGRAMS, image);
    CALL_FN_W_WW(L, fn, f, ud);
    announce(L, image);
    return L;
}

/* void lua_setallocf(lua_State *L, lua_Alloc f, void *ud) */
void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_setallocf)(void *L, void *f, void *ud);
void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_setallocf)(void *L, void *f, void *ud)
{
    OrigFn fn;
    void *old = NULL;
    VALGRIND_GET_ORIG_FN(fn);
    if (is_probing()) {
        CALL_FN_v_WWW(fn, L, f, ud);
        return;
    }
    struct image *image = know((void *)fn.nraddr);
    if (is_function(f))
        watch((alloc_function *)f, LUA_ALLOCATOR_PROGRAMS, image);
    if (image && image->api.getallocf)
        image->api.getallocf(L, &old);
    CALL_FN_v_WWW(fn, L, f, ud);
    if (image && image->api.getallocf)
        VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HEAP_MOVED, old, ud, 0, 0, 0);
    announce(L, image);
}

/* void lua_close(lua_State *L): what is left of LuaJIT's own heap afterwards went with its arena. Another
 * allocator is asked to free every block, and may serve other states. */
void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_close)(void *L);
void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_close)(void *L)
{
    OrigFn fn;
    void *ud = NULL;
    uint64_t g = 0;
    int is_own = 0;
    VALGRIND_GET_ORIG_FN(fn);
    if (is_probing()) {
        CALL_FN_v_W(fn, L);
        return;
    }
    const struct image *image = know((void *)fn.nraddr);
    if (image && image->api.getallocf) {
        is_own = image->api.getallocf(L, &ud) == image->own;
        g = global_of(L, image);
    }
    if (g)
        VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HEAP_CLOSING, g, 0, 0, 0, 0);
    CALL_FN_v_W(fn, L);
    if (image && image->api.getallocf)
        VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HEAP_CLOSED, ud, g, is_own, 0, 0);
}
