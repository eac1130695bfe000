/* lua_states.c - finds the Lua states of the program, and notices when they end.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The functions that create and close states are patched in whatever object they are (code_patch.h). As under Valgrind
 * (ljtrace/preload/lua_states.c), each LuaJIT is probed before its first state: a scratch state shows its allocator and
 * where this build keeps its state.
 */
#include "ljtrace/native/inside/lua_states.h"
#include "ljtrace/calibrate/lua_calibrate.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/core/states.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/jit/assembler.h"
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/native/inside/alloc_patch.h"
#include "ljtrace/native/inside/code_patch.h"
#include "ljtrace/native/inside/events.h"
#include "ljtrace/native/inside/got.h"
#include "ljtrace/native/inside/host/images.h"
#include "ljtrace/native/inside/host/host.h"
#include "ljtrace/native/inside/host/symbols.h"
#include "ljtrace/native/inside/lua_allocator.h"
#include "ljtrace/native/inside/lua_event.h"
#include "ljtrace/native/inside/lua_find.h"
#include "ljtrace/native/inside/lua_misc.h"
#include "ljtrace/native/inside/lua_steps.h"
#include "ljtrace/native/inside/objects.h"
#include "ljtrace/native/inside/stack_sampler.h"
#include "ljtrace/protocol/table.h"
#include <errno.h>
#include <link.h>
#include <string.h>

/* A LuaJIT image. */
struct image {
    struct lua_api api; /* the functions as they were */
    struct lua_layout layout;
    alloc_function *own; /* LuaJIT's own allocator; NULL = not known */
    uint64_t from, to;   /* its code */
    uint64_t place;      /* of a state that has LuaJIT's own allocator: where in a page it begins */
    bool is_known;
};

enum { MOST_PATCHES = 4 * LUA_MAX_IMAGES + 1 };

LASTING_TABLE(struct image, s_images, LUA_MAX_IMAGES); /* index: the number - 1 */
LASTING_TABLE(struct code_patch, s_patches, MOST_PATCHES);
static uint32_t s_patch_count;
static int s_lock;
NATIVE_THREAD_LOCAL bool t_probing;
NATIVE_THREAD_LOCAL uint32_t t_depth; /* of calls of functions that create states */

int lua_peek(uint64_t at, void *to, size_t n)
{
    program_doubt(at);
    return program_read(at, to, n);
}

/* -- probing -- */

/* What this thread does is the recorder's and not the program's. malloc is called, too: by a Lua that is not LuaJIT, and by
 * libgcc, which notes where a scratch state has the code of its traces. */
static void hide(bool on)
{
    t_probing = on;
    stack_sampler_hide(on);
    if (on)
        native_hide(NATIVE_OF_RECORDER);
    else
        native_show(NATIVE_OF_RECORDER);
    if (lua_event_begin()) {
        lt_hide(host_thread(), on);
        lua_event_end();
    }
}

/* What a function of the image did before it was patched. */
static void *unpatched(void *function)
{
    for (uint32_t i = 0; i < s_patch_count; i++)
        if (s_patches[i].function == function)
            return s_patches[i].original;
    return function;
}

/* Find the functions of an image. Returns the name of the first that is missing. NULL = all were found. */
static const char *find_api(uint32_t number, struct lua_api *api)
{
    void *at[LUA_API_FUNCTIONS];
    const char *missing = NULL;
    host_image_functions(number, lua_api_names, LUA_API_FUNCTIONS, (uint64_t *)at);
    for (uint32_t i = LUA_API_FUNCTIONS; i-- > 0;) {
        if (!at[i])
            missing = lua_api_names[i];
        at[i] = unpatched(at[i]);
    }
    memcpy(api, at, sizeof at);
    return missing;
}

static void find_steps(const struct image *image, void *L, uint32_t number)
{
    const char *why = lua_steps_find(&image->api, L, &image->layout);
    if (why)
        text_say("ljtrace: the lines of allocations on traces are approximate: the compiler of %s cannot be "
                 "observed: %s\n",
                 host_image_file(number), why);
}

static void try_state(struct image *image, uint32_t number)
{
    const struct lua_api *api = &image->api;
    void *L, *ud;
    if (!(L = api->newstate()))
        return;
    image->own = api->getallocf(L, &ud);
    image->place = (uint64_t)L % LUA_FIND_PAGE;
    lua_allocator_watch((void *)image->own, ud ? LUA_ALLOCATOR_OWN : LUA_ALLOCATOR_OWN_ENDING_ANYWHERE,
                        number);
    if (image->layout.known) {
        lua_calibrate(api, L, &image->layout);
        find_steps(image, L, number);
    }
    api->close(L);
}

static void probe(struct image *image, uint32_t number)
{
    const char *missing = find_api(number, &image->api);
    image->layout.known = !missing;
    if (image->api.newstate && image->api.getallocf && image->api.close)
        try_state(image, number);
    else
        image->layout.heap_unknown = 1;
    if (image->api.setmode && missing)
        text_print(image->layout.text, LUA_LAYOUT_TEXT, "%s is not among its symbols", missing);
    if (lua_event_begin()) {
        lt_vm_layout(&image->layout, number, host_image_file(number));
        lua_event_end();
    }
}

static void lock(void)
{
    while (__atomic_exchange_n(&s_lock, 1, __ATOMIC_ACQUIRE))
        ;
}

static void unlock(void)
{
    __atomic_store_n(&s_lock, 0, __ATOMIC_RELEASE);
}

/* The library of the profilers makes a scratch state of its own, and calls this before and after that. */
NATIVE_PUBLIC void ljtrace_recorder_hide(int on);

void ljtrace_recorder_hide(int on)
{
    const int error = errno;
    if (on)
        lock();
    hide(on);
    if (!on)
        unlock();
    errno = error;
}

/* The image that contains a function, probed when it is seen first. NULL if it is not known. */
static struct image *know(void *function)
{
    const int error = errno;
    lock();
    uint32_t number = host_image_of((uint64_t)function);
    if (!number)
        number = host_image_add((uint64_t)function);
    struct image *image = number ? &s_images[number - 1] : NULL;
    if (image && !image->is_known && !host_memory_reserve()) {
        native_problem(
            "Lua states are not recorded: there is no memory left for the recorder (ulimit -v or -d)");
        image = NULL;
    }
    if (image && !image->is_known) {
        memset(image, 0, sizeof *image);
        host_object_code((uint64_t)function, &image->from, &image->to);
        hide(true);
        probe(image, number);
        hide(false);
        image->is_known = true;
    }
    unlock();
    errno = error;
    return image;
}

/* -- states -- */

/* L: any thread of a state. */
static void announce(void *L, const struct image *image)
{
    void *ud = NULL;
    if (!L || !image || !image->layout.known)
        return;
    image->api.getallocf(L, &ud);
    if (!lua_event_begin())
        return;
    lt_vm_announce(lua_global(L, &image->layout), lt_lua_heap((uint64_t)ud),
                   (uint32_t)(image - s_images) + 1);
    lua_event_end();
}

/* Small numbers mean LuaJIT's own allocator. */
static bool is_function(const void *f)
{
    return (uintptr_t)f >= 65536;
}

static void watch_programs(void *f, const struct image *image)
{
    if (is_function(f) && image && (alloc_function *)f != image->own)
        lua_allocator_watch(f, LUA_ALLOCATOR_PROGRAMS, (uint32_t)(image - s_images) + 1);
}

/* The outermost function that creates a state has returned it. */
static void begin_state(void *L, const struct image *image)
{
    announce(L, image);
    if (!L || !image || t_depth)
        return;
    native_hide(NATIVE_OF_CALLER); /* what is loaded here is the recorder's */
    lua_misc_add(L);
    native_show(NATIVE_OF_CALLER);
}

static void *on_new_state(void *f, void *ud, void *unused, void *unused2, const struct code_patch *p)
{
    void *(*original)(void *f, void *ud) = (void *(*)(void *, void *))p->original;
    (void)unused, (void)unused2;
    if (t_probing || !native_is_on())
        return original(f, ud);
    const struct image *image = know(p->function);
    watch_programs(f, image);
    t_depth++;
    void *L = original(f, ud);
    t_depth--;
    begin_state(L, image);
    return L;
}

static void *on_new_own_state(void *unused, void *unused2, void *unused3, void *unused4,
                              const struct code_patch *p)
{
    void *(*original)(void) = (void *(*)(void))p->original;
    (void)unused, (void)unused2, (void)unused3, (void)unused4;
    if (t_probing || !native_is_on())
        return original();
    const struct image *image = know(p->function);
    t_depth++;
    void *L = original();
    t_depth--;
    begin_state(L, image);
    return L;
}

static void on_set_allocator(void *L, void *f, void *ud, void *unused, const struct code_patch *p)
{
    void (*original)(void *L, void *f, void *ud) = (void (*)(void *, void *, void *))p->original;
    void *old = NULL;
    (void)unused;
    if (t_probing || !native_is_on()) {
        original(L, f, ud);
        return;
    }
    const struct image *image = know(p->function);
    watch_programs(f, image);
    if (image && image->api.getallocf)
        image->api.getallocf(L, &old);
    original(L, f, ud);
    if (image && image->api.getallocf && lua_event_begin()) {
        lt_lua_heap_moved(lt_lua_heap((uint64_t)old), lt_lua_heap((uint64_t)ud));
        lua_event_end();
    }
    announce(L, image);
}

/* LuaJIT's own allocator unmaps its memory with all blocks that are left. Any other allocator is called to free each
 * block, and may serve other states too. */
static void on_close(void *L, void *unused, void *unused2, void *unused3, const struct code_patch *p)
{
    void (*original)(void *L) = (void (*)(void *))p->original;
    void *ud = NULL;
    (void)unused, (void)unused2, (void)unused3;
    if (t_probing || !native_is_on()) {
        original(L);
        return;
    }
    const struct image *image = know(p->function);
    const bool known = image && image->api.getallocf;
    const bool is_own = known && image->api.getallocf(L, &ud) == image->own;
    const uint64_t g = known ? lua_global(L, &image->layout) : 0;
    const struct luajit_offsets *at = luajit_offsets((int)(image && image->layout.gc64));
    if (g && lua_event_begin()) {
        lt_vm_closing(g, host_thread());
        lua_event_end();
    }
    if (g)
        lua_allocator_closing(g - image->layout.thread_size + at->thread_stack, at->ref);
    original(L);
    lua_allocator_closing(0, 0);
    if (known && lua_event_begin()) {
        lt_lua_state_closed(lt_lua_heap((uint64_t)ud), g, is_own);
        lua_event_end();
    }
}

/* -- finding the functions -- */

static bool is_patched(const void *function)
{
    for (uint32_t i = 0; i < s_patch_count; i++)
        if (s_patches[i].function == function)
            return true;
    return false;
}

/* always: call the wrapper also while nothing is recorded. Returns NULL, or why the function remains as it is. */
static const char *patch(void *function, void *wrapper, bool always)
{
    if (s_patch_count == MOST_PATCHES)
        return "there are too many";
    struct code_patch *p = &s_patches[s_patch_count];
    p->function = function;
    p->always = always;
    const char *why = code_patch(p, wrapper);
    if (!why)
        s_patch_count++;
    return why;
}

static void observe(const struct link_map *object, const char *name, void *wrapper)
{
    void *function = host_symbol(object, name);
    const char *why = function && !is_patched(function) ? patch(function, wrapper, false) : NULL;
    if (why)
        text_say("ljtrace: %s of %s cannot be observed: %s\n", name,
                 object->l_name[0] ? object->l_name : "the program", why);
}

static void look(void)
{
    for (const struct link_map *object = _r_debug.r_map; object; object = object->l_next) {
        if (!host_symbol(object, "lua_newstate") || !host_symbol(object, "lua_close"))
            continue;
        observe(object, "lua_newstate", (void *)on_new_state);
        observe(object, "luaL_newstate", (void *)on_new_own_state);
        observe(object, "lua_setallocf", (void *)on_set_allocator);
        observe(object, "lua_close", (void *)on_close);
    }
}

static void forget_patches(uint64_t from, uint64_t to)
{
    for (uint32_t i = 0; i < s_patch_count; i++)
        if ((uint64_t)s_patches[i].function >= from && (uint64_t)s_patches[i].function < to)
            s_patches[i].function = NULL;
}

/* The dynamic linker calls this function for debuggers when it has loaded or unloaded objects. */
static void on_objects_changed(void *unused, void *unused2, void *unused3, void *unused4,
                               const struct code_patch *p)
{
    const int error = errno;
    (void)unused, (void)unused2, (void)unused3, (void)unused4;
    ((void (*)(void))p->original)();
    if (_r_debug.r_state == RT_CONSISTENT)
        got_objects_changed();
    if (_r_debug.r_state != RT_CONSISTENT || !native_is_on())
        return;
    native_objects_update();
    if (lua_event_begin()) {
        const uint32_t gone = host_images_unloaded();
        for (uint32_t i = 0; i < LUA_MAX_IMAGES; i++)
            if (gone & 1U << i) {
                forget_patches(s_images[i].from, s_images[i].to);
                lua_allocator_unloaded(s_images[i].from, s_images[i].to);
                lua_steps_unloaded(s_images[i].from, s_images[i].to);
                s_images[i].is_known = false;
            }
        lua_event_end();
    }
    alloc_patch_objects_changed();
    look();
    errno = error;
}

/* Something that looks like the main thread of a state was found. */
static void see_candidate(void *L, void *any)
{
    const struct image *image = any;
    void *ud;
    if (image->api.getallocf(L, &ud) != image->own)
        return;
    announce(L, image);
    for (struct lt_vm *vm = lt_vm_first(); vm; vm = vm->next)
        vm->is_older |= vm->g == lua_global(L, &image->layout);
}

void lua_states_find(void)
{
    for (const struct link_map *object = _r_debug.r_map; object; object = object->l_next) {
        void *function = host_symbol(object, "lua_newstate");
        struct image *image = function && host_symbol(object, "lua_close") ? know(function) : NULL;
        if (!image || !image->layout.known || !image->own)
            continue;
        const struct luajit_offsets *at = luajit_offsets((int)image->layout.gc64);
        const struct lua_find_shape shape = {image->place, at->gct, at->thread_global, at->ref,
                                             image->layout.thread_size};
        lua_find(&shape, see_candidate, image);
    }
}

void lua_states_settle(void)
{
    const int error = errno;
    if (lt_vm_first() && native_try_enter((uint64_t)__builtin_frame_address(0)) == NATIVE_ENTERED) {
        host_set_time();
        lt_types_settle_all();
        native_leave();
    }
    errno = error;
}

/* What is known is as if the objects were unloaded, but their functions remain patched. */
void lua_states_end(void)
{
    lua_states_settle();
    if (!lua_event_begin())
        return;
    for (uint32_t i = 0; i < LUA_MAX_IMAGES; i++)
        if (s_images[i].is_known) {
            lt_vm_image_gone(i + 1);
            s_images[i].is_known = false;
        }
    host_forget_frames();
    lt_protos_forget();
    lt_traces_forget();
    lua_event_end();
}

void lua_states_init(void)
{
    static bool initialized;
    luajit_options = (struct luajit_options){.stack_depth = native_options.depth,
                                             .heaps = true,
                                             .states = true,
                                             .snapshot_growing = native_options.universe == UNIVERSE_GROWING};
    if (initialized) {
        host_records_restart();
        look();
        return;
    }
    initialized = true;
    lt_recording_init();
    lt_asm_init();
    lt_types_init();
    look();
    const char *why = patch((void *)_r_debug.r_brk, (void *)on_objects_changed, true);
    if (why)
        text_say("ljtrace: a LuaJIT that the program loads later is not recorded: %s\n", why);
}
