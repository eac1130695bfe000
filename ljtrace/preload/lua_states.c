/* lua_states.c - inform the tool of Lua states and of their allocators.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Wraps the functions that create and close Lua states, in whatever object they are. The tool observes the
 * calls of the allocator functions by itself (ljtrace/luajit/heap/allocator.c). All it needs from here
 * is the address of each allocator function, before it is called for the first time.
 *
 * LuaJIT's own allocator has no exported name. Therefore each LuaJIT image is probed before the program
 * creates its first state in it: a scratch state is created and closed. It shows the address of the
 * allocator, and lua_calibrate.c uses it to find where this build keeps its state. The program's own states
 * are not changed.
 */
#include "ljtrace/ljtrace.h"
#include "ljtrace/calibrate/lua_calibrate.h"
#include "ljtrace/protocol/table.h"
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* A LuaJIT image (an executable or shared library that contains LuaJIT), with the functions needed from
 * it. */
struct image {
    struct lua_api api;
    struct lua_layout layout;
    alloc_function *own; /* LuaJIT's own allocator; NULL = not known */
};

LASTING_TABLE(struct image, s_images, LUA_MAX_IMAGES); /* index: the tool's image number - 1 */
static volatile int s_lock;
static volatile uintptr_t s_prober; /* the thread that holds the lock; 0 = none */

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

/* The calls that the probe makes reach the wrappers as well, which only pass them on. */
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

/* Exclude the scratch state's allocations from the recording: they are not the program's. */
static void hide(int on)
{
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HIDE, on, 0, 0, 0, 0);
}

/* The library of the profilers makes a scratch state of its own, and calls this before and after that. */
void ljtrace_recorder_hide(int on);
void ljtrace_recorder_hide(int on)
{
    if (on)
        lock();
    hide(on);
    if (!on)
        unlock();
}

int lua_peek(uint64_t at, void *to, size_t n)
{
    return VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_PEEK, at, to, n, 0, 0) == n;
}

static uint32_t number_of(const struct image *image)
{
    return image ? (uint32_t)(image - s_images) + 1 : 0;
}

/* Look up the functions of an image. Returns the name of the first that is missing: then the image is another
 * Lua, or none. NULL = all were found. */
static const char *find_api(const struct image *image, struct lua_api *api)
{
    void *at[LUA_API_FUNCTIONS] = {0};
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_LUA_FUNCTIONS, number_of(image), lua_api_names,
                                    LUA_API_FUNCTIONS, at, 0);
    __builtin_memcpy(api, at, sizeof at);
    for (unsigned i = 0; i < LUA_API_FUNCTIONS; i++)
        if (!at[i])
            return lua_api_names[i];
    return 0;
}

/* Have the tool observe an allocator function. Returns 1 if the tool also wants the layout of the image. */
static uint32_t watch(alloc_function *f, enum lua_allocator whose, const struct image *image)
{
    return (uint32_t)VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_WATCH_ALLOCATOR, f, whose,
                                                     number_of(image), 0, 0);
}

/* The global state of a thread. The tool reads it: a load here would be recorded as one of the program's. */
static uint64_t global_of(const void *L, const struct lua_layout *layout)
{
    const struct luajit_offsets *at = luajit_offsets((int)layout->gc64);
    uint64_t g = 0;
    return layout->known && lua_peek((uint64_t)L + at->thread_global, &g, at->ref) ? g : 0;
}

/* Inform the tool of a state, since it may not have seen how the state was made. L: any thread of it. */
static void announce(void *L, const struct image *image)
{
    void *ud = NULL;
    if (!L || !image || !image->layout.known)
        return;
    uint64_t g = global_of(L, &image->layout);
    image->api.getallocf(L, &ud);
    VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_LUA_STATE, g, ud, number_of(image), 0, 0);
}

/* The tool's number of the image that contains a function; 0 = none. With `is_new`, the image is registered
 * and gets a number. */
static uint32_t image_of(const void *function, int is_new)
{
    return (uint32_t)VALGRIND_DO_CLIENT_REQUEST_EXPR(0, LJTRACE_REQUEST_LUA_IMAGE, function, is_new, 0, 0, 0);
}

/* Create a scratch state, to see which allocator this image's luaL_newstate uses and where it keeps its
 * state. */
static void try_state(struct image *image)
{
    const struct lua_api *api = &image->api;
    void *L, *ud;
    if (!(L = api->newstate()))
        return;
    image->own = api->getallocf(L, &ud);
    /* Observe the allocator first: then the code that runs from here on is translated only once. */
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

/* Find out all that is needed of an image and report it to the tool. It is worth a message to the user that
 * symbols of LuaJIT are missing, but not that an image is another Lua. */
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

/* The image that contains a Lua function, probed when it is seen first. NULL if it is not known. */
static struct image *know(void *function)
{
    int error = errno_now();
    lock();
    hide(1);
    tables_map();
    uint32_t number = tables_are_mapped() ? image_of(function, 0) : 0;
    if (!number && tables_are_mapped() && (number = image_of(function, 1)))
        probe(&s_images[number - 1]);
    hide(0);
    unlock();
    restore_errno(error);
    return number ? &s_images[number - 1] : 0;
}

/* A compiler that sees caller and callee may leave the stack between them unaligned: align it here. */
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

/* Small numbers mean LuaJIT's own allocator. */
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

/* void lua_close(lua_State *L)
 * Closing a state with LuaJIT's own allocator unmaps its arenas with all blocks that are left. Any other
 * allocator is called to free each block, and may serve other states too. */
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
        g = global_of(L, &image->layout);
    }
    if (g)
        VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HEAP_CLOSING, g, 0, 0, 0, 0);
    CALL_FN_v_W(fn, L);
    if (image && image->api.getallocf)
        VALGRIND_DO_CLIENT_REQUEST_STMT(LJTRACE_REQUEST_HEAP_CLOSED, ud, g, is_own, 0, 0);
}
