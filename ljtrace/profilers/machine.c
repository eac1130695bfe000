/* machine.c - read a LuaJIT state, by ljtrace/luajit/.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/profilers/machine.h"
#include "ljtrace/calibrate/lua_calibrate.h"
#include "ljtrace/ljtrace.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/kernel.h"
#include "memtrace/memtrace.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

enum { FF_LUA, FF_C };

static struct lua_layout s_layout;
static bool s_is_probed;

/* The recorders' libraries inside the program define this. */
void ljtrace_recorder_hide(int on) __attribute__((weak, visibility("default")));

/* -- memory -- */

/* Can this page be read? The kernel copies the set of rt_sigprocmask before it looks at the other arguments. Valgrind
 * would write a message about them, but the recorder that runs there can be asked. */
static bool is_readable(uint64_t page)
{
    enum { NOT_ASKED = 2 };
    uint8_t byte;
    const uintptr_t read =
        VALGRIND_DO_CLIENT_REQUEST_EXPR(NOT_ASKED, LJTRACE_REQUEST_PEEK, page, &byte, 1, 0, 0);
    return read == NOT_ASKED ? kernel_can_read(page) : read == 1;
}

bool host_mappings_are_known(void)
{
    return false;
}

/* No range is known: readers of numbers remember single pages, which a signal handler cannot find half written. */
bool host_readable(uint64_t a, size_t n, uint64_t *from, uint64_t *to)
{
    *from = *to = 0;
    if (a >> 47 || n > (uint64_t)1 << 47)
        return false;
    for (uint64_t page = a & ~(uint64_t)(KERNEL_PAGE - 1); page < a + n; page += KERNEL_PAGE)
        if (!is_readable(page))
            return false;
    return true;
}

int lua_peek(uint64_t at, void *to, size_t n)
{
    program_number(at, 1); /* it remembers the page */
    if (!program_is_known(at, (uint32_t)n) && !program_readable(at, n))
        return 0;
    memcpy(to, (const void *)(uintptr_t)at, n);
    return 1;
}

/* -- the layout -- */

/* Returns NULL, or the name of the first function that is missing. */
static const char *find_api(struct lua_api *api)
{
    void *at[LUA_API_FUNCTIONS];
    for (size_t i = 0; i < LUA_API_FUNCTIONS; i++)
        if (!(at[i] = dlsym(RTLD_DEFAULT, lua_api_names[i])))
            return lua_api_names[i];
    memcpy(api, at, sizeof at);
    return NULL;
}

static void try_state(const struct lua_api *api)
{
    void *L, *ud;
    if (!(L = api->newstate())) {
        strcpy(s_layout.text, "not enough memory");
        return;
    }
    api->getallocf(L, &ud);
    s_layout.known = 1;
    lua_calibrate(api, L, &s_layout);
    api->close(L);
    program_forget();
}

/* If the program is recorded, the scratch state is hidden from the recorder: it is not the program's. */
static void probe(void)
{
    struct lua_api api;
    const char *missing = find_api(&api);
    s_is_probed = true;
    if (missing) {
        strcpy(stpcpy(s_layout.text, missing), " is not found: this is not LuaJIT");
        return;
    }
    if (ljtrace_recorder_hide)
        ljtrace_recorder_hide(1);
    try_state(&api);
    if (ljtrace_recorder_hide)
        ljtrace_recorder_hide(0);
}

const char *machine_find(struct lt_vm *vm, struct lua_State *L)
{
    if (!s_is_probed)
        probe();
    if (!s_layout.known)
        return s_layout.text;
    vm->layout = &s_layout;
    vm->at = luajit_offsets((int)s_layout.gc64);
    vm->g = lt_vm_ref(vm, (uint64_t)(uintptr_t)L + vm->at->thread_global);
    return NULL;
}

/* -- the state -- */

uint64_t machine_thread(const struct lt_vm *vm)
{
    const uint64_t L = lt_vm_ref(vm, vm->g + vm->layout->cur_l);
    const bool is_one =
        L && lt_vm_gct(vm, L) == GCT_THREAD && lt_vm_ref(vm, L + vm->at->thread_global) == vm->g;
    return is_one ? L : 0;
}

uint64_t machine_cframe(const struct lt_vm *vm)
{
    const uint64_t L = machine_thread(vm);
    return L ? program_number(L + vm->at->thread_cframe, 8) & ~3ULL : 0;
}

/* -- functions -- */

static uint64_t proto_of(const struct lt_vm *vm, uint64_t function)
{
    const uint64_t proto = lt_function_proto(vm, function);
    return proto && lt_vm_gct(vm, proto) == GCT_PROTO ? proto : 0;
}

uint64_t machine_first_line(const struct lt_vm *vm, uint64_t proto)
{
    return (uint64_t)(int64_t)(int32_t)program_number(proto + vm->at->proto_first, 4);
}

uint32_t machine_chunk(const struct lt_vm *vm, uint64_t proto, const char **text)
{
    const uint64_t name = lt_vm_ref(vm, proto + vm->at->proto_chunk);
    const uint64_t at = name + vm->layout->string_header;
    uint32_t n = 0;
    while (program_number(at + n, 1))
        n++;
    *text = (const char *)(uintptr_t)at;
    return n;
}

bool machine_trace(const struct lt_vm *vm, uint32_t trace, uint64_t *proto, uint32_t *line)
{
    if (!vm->layout->traces)
        return false;
    const uint64_t table = program_number(vm->g + vm->layout->traces, 8);
    const uint64_t at = lt_vm_ref(vm, table + (uint64_t)trace * vm->at->ref);
    if (!at || lt_vm_gct(vm, at) != GCT_TRACE)
        return false;
    *proto = lt_vm_ref(vm, at + vm->at->trace_start);
    *line = lt_line_at(vm, *proto, lt_vm_ref(vm, at + vm->at->trace_startpc));
    return lt_vm_gct(vm, *proto) == GCT_PROTO;
}

/* -- the Lua stack -- */

void machine_walk(struct lt_frames *w, const struct lt_vm *vm, const struct lt_registers *live)
{
    const uint64_t L = machine_thread(vm);
    *w = (struct lt_frames){.vm = vm};
    if (!L)
        return;
    w->cframe = machine_cframe(vm);
    lt_frames_begin(w, L);
    if (live)
        lt_frames_use(w, live);
}

static const struct lt_reading s_reading = {false, NULL};

/* Describe the current frame. Returns false if it is no function's. */
static bool describe(const struct lt_frames *w, struct machine_frame *f)
{
    const struct lt_vm *vm = w->vm;
    const uint64_t function = lt_frame_function(vm, w->frame, false), proto = proto_of(vm, function);
    *f = (struct machine_frame){.function = function, .proto = proto};
    if (lt_vm_gct(vm, function) != GCT_FUNC)
        return false;
    if (proto) {
        f->kind = FRAME_LUA;
        f->line = lt_line_at(vm, proto, lt_frames_return_pc(w, s_reading) - 4);
        f->has_lines = lt_vm_ref(vm, proto + vm->at->proto_lines) != 0;
        return true;
    }
    f->ffid = (uint32_t)program_number(function + vm->at->ffid, 1);
    f->kind = f->ffid > FF_C ? FRAME_FAST : FRAME_C;
    f->code = program_number(function + vm->at->func_c, 8);
    return f->ffid >= FF_C;
}

bool machine_next(struct lt_frames *w, struct machine_frame *f)
{
    bool more = lt_frames_inside(w, w->frame);
    while (more) {
        const bool is_function = describe(w, f);
        const bool is_vararg = (lt_frame_link(w->vm, w->frame, false) & 7) == LINK_VARG;
        more = lt_frames_step(w, s_reading) &&
               (!is_vararg || lt_frames_step(w, s_reading)); /* below is the same function's own frame */
        if (is_function)
            return true;
    }
    return false;
}

/* -- what the machine does -- */

/* Is the compiler at work? While a trace is recorded, the interpreter still executes one instruction after another. The
 * compiler is called by an entry into the VM of its own, which executes no instruction. */
static bool compiles(const struct lt_vm *vm)
{
    const struct lt_frames now = {.vm = vm, .L = machine_thread(vm), .cframe = machine_cframe(vm)};
    return lt_frames_cframe_pc(&now, s_reading) == 0;
}

uint32_t machine_doing(const struct lt_vm *vm, uint32_t *trace)
{
    const int32_t state = (int32_t)lt_vm_u32(vm->g + vm->layout->vmstate);
    const uint32_t doing = lt_machine_state(vm);
    *trace = state > 0 ? (uint32_t)state : 0;
    return doing == MT_VM_RECORD && !compiles(vm) ? (uint32_t)MT_VM_INTERP : doing;
}
