/* lua_steps.c - has LuaJIT's compiler report each bytecode that it records.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/native/lua_steps.h"
#include "ljtrace/native/lua_event.h"
#include "ljtrace/protocol/luajit_offsets.h"
#include "ljtrace/tool/luajit/core/images.h"
#include "ljtrace/tool/luajit/jit/recorder.h"
#include <string.h>

static struct lt_vm *state_of(Addr L)
{
    struct lt_vm *vm = lt_vm_first();
    while (vm && lt_vm_ref(vm, L + vm->at->thread_global) != vm->g)
        vm = vm->next;
    return vm;
}

/* A C function of Lua: the compiler is about to record a bytecode. */
static int on_record(void *L)
{
    if (lua_event_begin()) {
        struct lt_vm *vm = state_of((Addr)L);
        if (vm && vm->layout->recorder)
            lt_recording_event(vm, (Addr)L);
        lua_event_end();
    }
    return 0;
}

void lua_steps_find(const struct lua_api *api, void *L, const struct lua_layout *layout, uint32_t image,
                    struct lua_steps_api *to)
{
    static const char script[] = "return jit.attach";
    static const char *const names[] = {"lua_pushlstring", "lua_cpcall"};
    Addr found[2];
    if (!layout->known || !layout->recorder || api->loadbuffer(L, script, sizeof script - 1, "=ljtrace") ||
        api->pcall(L, 0, 1, 0))
        return;
    const char *function = api->topointer(L, -1);
    if (function)
        memcpy(&to->attach, function + luajit_offsets((int)layout->gc64)->func_c, sizeof to->attach);
    lt_image_functions(image, names, 2, found);
    to->pushlstring = (void (*)(void *, const char *, size_t))found[0];
    to->cpcall = (int (*)(void *, c_function *, void *))found[1];
}

/* The image for which this thread calls `attach`. */
NATIVE_THREAD_LOCAL const struct lua_api *t_api;
NATIVE_THREAD_LOCAL const struct lua_steps_api *t_steps;

/* A C function of Lua: jit.attach(on_record, "record") */
static int attach(void *L)
{
    static const char event[] = "record";
    t_api->pushcclosure(L, t_steps->attach, 0);
    t_api->pushcclosure(L, on_record, 0);
    t_steps->pushlstring(L, event, sizeof event - 1);
    t_api->pcall(L, 2, 0, 0);
    return 0;
}

/* If there is no memory left, the state remains as it is. */
void lua_steps_attach(const struct lua_api *api, const struct lua_steps_api *steps, void *L)
{
    if (!steps->attach || !steps->pushlstring || !steps->cpcall)
        return;
    t_api = api;
    t_steps = steps;
    if (steps->cpcall(L, attach, NULL))
        api->settop(L, 0);
}
