/* states.c - the table of the Lua states, and what happens when one begins or ends.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/core/states.h"
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/core/accounting.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

enum { MOST_HOOKS = 8 };

LASTING_TABLE(struct lua_layout, s_layout, LUA_MAX_IMAGES + 1);
static struct lt_vm *s_vms;
static struct lt_vm_hooks s_hooks[MOST_HOOKS];
static uint32_t s_hooked;

/* Report to the user what cannot be recorded, and why. */
static void complain(const struct lua_layout *layout, const char *file)
{
    text_say("ljtrace: the layout of the LuaJIT in %s is not known:\n", file);
    if (layout->thread_size)
        text_say("ljtrace:   %s (%s references, thread of %u bytes)\n", layout->text,
                 layout->gc64 ? "8-byte" : "4-byte", layout->thread_size);
    else
        text_say("ljtrace:   %s\n", layout->text);
    text_say(layout->heap_unknown
                 ? "ljtrace: blocks of its own allocator are not recorded\n"
                 : "ljtrace: its heaps are recorded without Lua lines, types and VM states\n");
}

/* Report a Lua that is not LuaJIT. */
static void report_other(const char *file)
{
    text_say("ljtrace: the Lua in %s is not LuaJIT: its blocks are recorded without Lua lines and types\n",
             file);
    HOST_PUT(info, .key = host_text("other_lua"), .value = host_text(file));
}

void lt_vm_layout(const struct lua_layout *layout, uint32_t image, const char *file)
{
    if (!image || image > LUA_MAX_IMAGES)
        return;
    s_layout[image] = *layout;
    s_layout[image].text[LUA_LAYOUT_TEXT - 1] = 0;
    if (!layout->known && layout->text[0])
        complain(&s_layout[image], file);
    else if (!layout->known)
        report_other(file);
}

void lt_vm_hook(const struct lt_vm_hooks *hooks)
{
    host_assert(s_hooked < MOST_HOOKS);
    s_hooks[s_hooked++] = *hooks;
}

static void made(struct lt_vm *vm)
{
    for (uint32_t i = 0; i < s_hooked; i++)
        if (s_hooks[i].made)
            s_hooks[i].made(vm);
}

static void begins(struct lt_vm *vm)
{
    for (uint32_t i = 0; i < s_hooked; i++)
        if (s_hooks[i].begins)
            s_hooks[i].begins(vm);
}

static void ends(struct lt_vm *vm)
{
    for (uint32_t i = 0; i < s_hooked; i++)
        if (s_hooks[i].ends)
            s_hooks[i].ends(vm);
}

static void ended(void)
{
    for (uint32_t i = 0; i < s_hooked; i++)
        if (s_hooks[i].ended)
            s_hooks[i].ended();
}

struct lt_vm *lt_vm_with_global(uint64_t g)
{
    struct lt_vm *vm = s_vms;
    while (vm && vm->g != g)
        vm = vm->next;
    return vm;
}

/* What was recorded in the heap `ud` so far is this state's: its first block, and blocks that it made before it was known.
 * The next state with this pointer begins another heap. */
static void take_heap(const struct lt_vm *vm, uint64_t ud)
{
    HOST_PUT(rename, .from = ud, .to = lt_vm_heap(vm));
}

/* is_new: the state begins, though one at this address may not have been seen to end. */
static struct lt_vm *announce(uint64_t g, uint64_t ud, uint32_t image, bool is_new)
{
    struct lt_vm *vm = lt_vm_with_global(g);
    is_new |= !vm;
    if (!vm) {
        vm = host_new(sizeof *vm);
        vm->next = s_vms;
        vm->string_forms = s_layout[image].string_form ? s_layout[image].string_form : 15;
        s_vms = vm;
        made(vm);
    }
    vm->g = g;
    vm->ended = false;
    vm->closed_by = 0;
    vm->ud = ud;
    vm->image = image;
    vm->layout = &s_layout[image];
    vm->at = luajit_offsets(vm->layout->gc64);
    if (is_new)
        take_heap(vm, ud);
    begins(vm);
    return vm;
}

static bool is_known(uint32_t image)
{
    return image && image <= LUA_MAX_IMAGES && s_layout[image].known;
}

void lt_vm_announce(uint64_t g, uint64_t ud, uint32_t image)
{
    if (is_known(image))
        announce(g, ud, image, false);
}

/* A state's first block contains the main thread, followed by the global state. */
struct lt_vm *lt_vm_first_block(uint64_t block, size_t size, uint64_t ud, uint32_t image)
{
    if (!is_known(image) || size < LT_LEAST_GLOBAL)
        return NULL;
    const struct lua_layout *l = &s_layout[image];
    const struct luajit_offsets *at = luajit_offsets(l->gc64);
    uint64_t g = program_number(block + at->thread_global, at->ref);
    if (g != block + l->thread_size || program_number(block + at->gct, 1) != GCT_THREAD)
        return NULL;
    return announce(g, ud, image, true);
}

struct lt_vm *lt_vm_of(uint64_t ud)
{
    struct lt_vm *found = NULL;
    for (struct lt_vm *vm = s_vms; vm; vm = vm->next)
        if (vm->ud == ud) {
            if (found)
                return NULL;
            found = vm;
        }
    return found;
}

uint32_t lt_vm_count(uint64_t ud)
{
    uint32_t n = 0;
    for (const struct lt_vm *vm = s_vms; vm; vm = vm->next)
        n += vm->ud == ud;
    return n;
}

/* Remove all states for which `is_meant` holds. */
static void end_those(bool (*is_meant)(const struct lt_vm *vm, uint64_t a, uint64_t b), uint64_t a,
                      uint64_t b)
{
    struct lt_vm **at = &s_vms;
    while (*at) {
        struct lt_vm *vm = *at;
        if (is_meant(vm, a, b)) {
            *at = vm->next;
            ends(vm);
            lt_accounting_end(vm);
            host_free(vm);
            ended();
        } else {
            at = &vm->next;
        }
    }
}

static bool is_state_of_heap(const struct lt_vm *vm, uint64_t ud, uint64_t g)
{
    return vm->ud == ud && (g == 0 || vm->g == g);
}

void lt_vm_closing(uint64_t g, uint32_t thread)
{
    struct lt_vm *vm = lt_vm_with_global(g);
    if (vm)
        vm->closed_by = thread;
}

void lt_vm_closed(uint64_t ud, uint64_t g)
{
    end_those(is_state_of_heap, ud, g);
}

static bool is_of_image(const struct lt_vm *vm, uint64_t image, uint64_t unused)
{
    (void)unused;
    return vm->image == image;
}

void lt_vm_image_gone(uint32_t image)
{
    end_those(is_of_image, image, 0);
    s_layout[image].known = 0;
}

struct lt_vm *lt_vm_first(void)
{
    return s_vms;
}
