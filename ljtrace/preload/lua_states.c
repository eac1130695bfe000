/* lua_states.c - inside the program: tell the tool where Lua states take their memory. (guest preload)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Wraps the functions that make and end Lua states, in whatever object they are. The tool observes the
 * allocator functions itself (ljtrace/tool/luajit/heap/allocator.c); all it needs from here is their addresses, before the first call.
 * LuaJIT's own allocator has no exported name: a scratch state, made and closed before the program's first
 * one in each LuaJIT image, shows its address, and serves to find where that build keeps its state
 * (lua_calibrate.c). Nothing of the program's states is changed.
 */
#include "ljtrace/ljtrace.h"
#include "ljtrace/preload/lua_calibrate.h"
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* The functions needed of the image that a Lua function belongs to. */
struct image {
    struct lua_api api;
    struct lua_layout layout;
    alloc_function *own; /* LuaJIT's own allocator; NULL = not known */
};

static struct image s_images[LUA_MAX_IMAGES]; /* by the tool's number, less 1 */
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

/* What the scratch state allocates is not the program's. */
static void hide(int on)
{
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HIDE, on, 0, 0, 0, 0);
}

static uint32_t number_of(const struct image *image)
{
    return image ? (uint32_t)(image - s_images) + 1 : 0;
}

/* The functions of an image. The first that is missing: then this is another Lua, or none; NULL = all are
 * there. */
static const char *find_api(const struct image *image, struct lua_api *api)
{
    static const char *const names[] = {"luaL_newstate",   "lua_getallocf", "lua_close",
                                        "luaJIT_setmode",  "lua_setallocf", "luaL_openlibs",
                                        "luaL_loadbuffer", "lua_pcall",     "lua_pushcclosure",
                                        "lua_topointer",   "lua_settop",    "lua_tointeger"};
    enum { FUNCTIONS = sizeof names / sizeof *names };
    void *at[FUNCTIONS] = {0};
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_LUA_FUNCTIONS, number_of(image), names, FUNCTIONS, at, 0);
    __builtin_memcpy(api, at, sizeof at);
    for (unsigned i = 0; i < FUNCTIONS; i++)
        if (!at[i])
            return names[i];
    return 0;
}

/* 1 if the tool wants to know where the image keeps its state. */
static uint32_t watch(alloc_function *f, enum lua_allocator whose, const struct image *image)
{
    return (uint32_t)VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_WATCH_ALLOCATOR, f, whose,
                                                     number_of(image), 0, 0);
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
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_LUA_STATE, g, ud, number_of(image), 0, 0);
}

/* The tool's number of the image that a function belongs to; 0. With `is_new` it gets one. */
static uint32_t image_of(const void *function, int is_new)
{
    return (uint32_t)VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_LUA_IMAGE, function, is_new, 0, 0, 0);
}

/* Make a state just to see what allocator this image's luaL_newstate uses and where it keeps its state. */
static void try_state(struct image *image)
{
    const struct lua_api *api = &image->api;
    void *L, *ud;
    if (!(L = api->newstate()))
        return;
    image->own = api->getallocf(L, &ud);
    /* first: what runs next need not be translated twice */
    image->layout.known &=
        watch(image->own, ud ? LUA_ALLOCATOR_OWN : LUA_ALLOCATOR_OWN_ENDING_ANYWHERE, image);
    if (image->layout.known)
        lua_calibrate(api, L, &image->layout);
    api->close(L);
}

static void append(char to[LUA_LAYOUT_TEXT], const char *from)
{
    unsigned n = 0;
    while (to[n])
        n++;
    while (*from && n < LUA_LAYOUT_TEXT - 1)
        to[n++] = *from++;
}

/* What can be known of an image. That another Lua is none is not worth a word. */
static void probe(struct image *image)
{
    const struct lua_api *api = &image->api;
    __builtin_memset(image, 0, sizeof *image);
    const char *missing = find_api(image, &image->api);
    image->layout.known = !missing;
    if (api->newstate && api->getallocf && api->close)
        try_state(image);
    else
        image->layout.heap_unknown = 1;
    if (api->setmode && missing) {
        append(image->layout.text, missing);
        append(image->layout.text, " is not among its symbols");
    }
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_LUA_LAYOUT, &image->layout, number_of(image), 0, 0, 0);
}

/* The image of a Lua function, probed at the first time. NULL if it is not known. */
static struct image *know(void *function)
{
    int error = errno_now();
    lock();
    hide(1);
    uint32_t number = image_of(function, 0);
    if (!number && (number = image_of(function, 1)))
        probe(&s_images[number - 1]);
    hide(0);
    unlock();
    restore_errno(error);
    return number ? &s_images[number - 1] : 0;
}

/* A compiler that sees caller and callee need not align the stack between them. */
#define WRAPPER __attribute__((force_align_arg_pointer))

/* lua_State *luaL_newstate(void) */
WRAPPER void *I_WRAP_SONAME_FNNAME_ZZ(Za, luaL_newstate)(void);
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
WRAPPER void *I_WRAP_SONAME_FNNAME_ZZ(Za, lua_newstate)(void *f, void *ud);
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
WRAPPER void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_setallocf)(void *L, void *f, void *ud);
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
WRAPPER void I_WRAP_SONAME_FNNAME_ZZ(Za, lua_close)(void *L);
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
