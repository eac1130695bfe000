/* states.c - the table of the Lua states, and what happens when one begins or ends. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/core/states.h"
#include "ljtrace/luajit/core/accounting.h"
#include "ljtrace/protocol/table.h"
#include "ljtrace/valgrind/luajit/images.h"
#include "ljtrace/valgrind/ring/info.h"
#include "ljtrace/valgrind/ring/records.h"
#include "memtrace/memtrace.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_mallocfree.h"

enum { MOST_HOOKS = 8 };

LASTING_TABLE(struct lua_layout, s_layout, LUA_MAX_IMAGES + 1);
static struct lt_vm *s_vms;
static struct lt_vm_hooks s_hooks[MOST_HOOKS];
static UInt s_hooked;

/* Report to the user what cannot be recorded, and why. */
static void complain(const struct lua_layout *layout, const HChar *file)
{
    VG_(umsg)("ljtrace: the layout of the LuaJIT in %s is not known:\n", file);
    if (layout->thread_size)
        VG_(umsg)
    ("ljtrace:   %s (%s references, thread of %u bytes)\n", layout->text, layout->gc64 ? "8-byte" : "4-byte",
     layout->thread_size);
    else VG_(umsg)("ljtrace:   %s\n", layout->text);
    VG_(umsg)
    (layout->heap_unknown ? "ljtrace: blocks of its own allocator are not recorded\n"
                          : "ljtrace: its heaps are recorded without Lua lines, types and VM states\n");
}

/* Report a Lua that is not LuaJIT. */
static void report_other(const HChar *file)
{
    VG_(umsg)
    ("ljtrace: the Lua in %s is not LuaJIT: its blocks are recorded without Lua lines and types\n", file);
    lt_put_info("other_lua", file);
}

void lt_vm_layout(const struct lua_layout *layout, UInt image)
{
    if (!image || image > LUA_MAX_IMAGES)
        return;
    s_layout[image] = *layout;
    s_layout[image].text[LUA_LAYOUT_TEXT - 1] = 0;
    if (!layout->known && layout->text[0])
        complain(&s_layout[image], lt_image_file(image));
    else if (!layout->known)
        report_other(lt_image_file(image));
}

void lt_vm_hook(const struct lt_vm_hooks *hooks)
{
    tl_assert(s_hooked < MOST_HOOKS);
    s_hooks[s_hooked++] = *hooks;
}

static void made(struct lt_vm *vm)
{
    for (UInt i = 0; i < s_hooked; i++)
        if (s_hooks[i].made)
            s_hooks[i].made(vm);
}

static void begins(struct lt_vm *vm)
{
    for (UInt i = 0; i < s_hooked; i++)
        if (s_hooks[i].begins)
            s_hooks[i].begins(vm);
}

static void ends(struct lt_vm *vm)
{
    for (UInt i = 0; i < s_hooked; i++)
        if (s_hooks[i].ends)
            s_hooks[i].ends(vm);
}

static void ended(void)
{
    for (UInt i = 0; i < s_hooked; i++)
        if (s_hooks[i].ended)
            s_hooks[i].ended();
}

struct lt_vm *lt_vm_with_global(Addr g)
{
    struct lt_vm *vm = s_vms;
    while (vm && vm->g != g)
        vm = vm->next;
    return vm;
}

/* What was recorded in the heap `ud` so far is this state's: its first block, and blocks that it made before it was known.
 * The next state with this pointer begins another heap. */
static void take_heap(const struct lt_vm *vm, Addr ud)
{
    RING_PUT(rename, .from = ud, .to = lt_vm_heap(vm));
}

/* is_new: the state begins, though one at this address may not have been seen to end. */
static struct lt_vm *announce(Addr g, Addr ud, UInt image, Bool is_new)
{
    struct lt_vm *vm = lt_vm_with_global(g);
    is_new |= !vm;
    if (!vm) {
        vm = VG_(calloc)("ljtrace.vm", 1, sizeof *vm);
        vm->next = s_vms;
        vm->string_forms = 15;
        s_vms = vm;
        made(vm);
    }
    vm->g = g;
    vm->ended = False;
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

static Bool is_known(UInt image)
{
    return image && image <= LUA_MAX_IMAGES && s_layout[image].known;
}

void lt_vm_announce(Addr g, Addr ud, UInt image)
{
    if (is_known(image))
        announce(g, ud, image, False);
}

/* A state's first block contains the main thread, followed by the global state. */
struct lt_vm *lt_vm_first_block(Addr block, SizeT size, Addr ud, UInt image)
{
    if (!is_known(image) || size < LT_LEAST_GLOBAL)
        return NULL;
    const struct lua_layout *l = &s_layout[image];
    const struct luajit_offsets *at = luajit_offsets(l->gc64);
    Addr g = lt_guest_number(block + at->thread_global, at->ref);
    if (g != block + l->thread_size || lt_guest_number(block + at->gct, 1) != GCT_THREAD)
        return NULL;
    return announce(g, ud, image, True);
}

struct lt_vm *lt_vm_of(Addr ud)
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

UInt lt_vm_count(Addr ud)
{
    UInt n = 0;
    for (const struct lt_vm *vm = s_vms; vm; vm = vm->next)
        n += vm->ud == ud;
    return n;
}

/* Remove all states for which `is_meant` holds. */
static void end_those(Bool (*is_meant)(const struct lt_vm *vm, Addr a, Addr b), Addr a, Addr b)
{
    struct lt_vm **at = &s_vms;
    while (*at) {
        struct lt_vm *vm = *at;
        if (is_meant(vm, a, b)) {
            *at = vm->next;
            ends(vm);
            lt_accounting_end(vm);
            VG_(free)(vm);
            ended();
        } else {
            at = &vm->next;
        }
    }
}

static Bool is_state_of_heap(const struct lt_vm *vm, Addr ud, Addr g)
{
    return vm->ud == ud && (g == 0 || vm->g == g);
}

void lt_vm_closing(Addr g, UInt thread)
{
    struct lt_vm *vm = lt_vm_with_global(g);
    if (vm)
        vm->closed_by = thread;
}

void lt_vm_closed(Addr ud, Addr g)
{
    end_those(is_state_of_heap, ud, g);
}

static Bool is_of_image(const struct lt_vm *vm, Addr image, Addr unused)
{
    return vm->image == image;
}

void lt_vm_image_gone(UInt image)
{
    end_those(is_of_image, image, 0);
    s_layout[image].known = 0;
}

struct lt_vm *lt_vm_first(void)
{
    return s_vms;
}

UInt lt_machine_state(const struct lt_vm *vm)
{
    Int state = (Int)lt_vm_u32(vm->g + vm->layout->vmstate);
    if (state > 0)
        return MT_VM_TRACE;
    return ~state < LUA_LAYOUT_VM_STATES ? vm->layout->vm[~state] : MT_VM_C;
}

Addr lt_vm_cframe(const struct lt_vm *vm)
{
    Addr L = lt_vm_ref(vm, vm->g + vm->layout->cur_l);
    return L ? lt_guest_number(L + vm->at->thread_cframe, 8) & ~(Addr)3 : 0;
}
