/* machine.c - read a LuaJIT state.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#define _GNU_SOURCE
#include "ljtrace/profilers/machine.h"
#include "ljtrace/calibrate/lua_calibrate.h"
#include "ljtrace/ljtrace.h"
#include "ljtrace/protocol/kernel.h"
#include "memtrace/memtrace.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

enum { PAGE = 4096, PAGES = 256, GCT_THREAD = 6, GCT_PROTO = 7, GCT_FUNC = 8, GCT_TRACE };
enum { LINK_LUA, LINK_C, LINK_CONTINUED, LINK_VARG };
enum { FF_LUA, FF_C };

static struct lua_layout s_layout;
static bool s_is_probed;
static uint64_t s_pages[PAGES]; /* pages that are mapped, by their low bits; 0 = none */

/* The recorders' libraries inside the program define this. */
void ljtrace_recorder_hide(int on) __attribute__((weak, visibility("default")));

/* -- memory -- */

void machine_forget(void)
{
    memset(s_pages, 0, sizeof s_pages);
}

/* Can this page be read? The kernel copies the set of rt_sigprocmask before it looks at the other arguments. Valgrind
 * would write a message about them, but the recorder that runs there can be asked. */
static bool is_readable(uint64_t page)
{
    enum { NOT_ASKED = 2 };
    uint8_t byte;
    const uintptr_t read =
        VALGRIND_DO_CLIENT_REQUEST_EXPR(NOT_ASKED, LJTRACE_REQUEST_PEEK, page, &byte, 1, 0, 0);
    return read == NOT_ASKED ? kernel_call(SYS_rt_sigprocmask, ~0L, (long)page, 0, 8, 0, 0) == -EINVAL
                             : read == 1;
}

static bool is_mapped(uint64_t at)
{
    const uint64_t page = at & ~(uint64_t)(PAGE - 1);
    uint64_t *known = &s_pages[at / PAGE % PAGES];
    if (*known == page && page)
        return true;
    if (at < PAGE || at >> 47 || !is_readable(page))
        return false;
    *known = page;
    return true;
}

int lua_peek(uint64_t at, void *to, size_t n)
{
    if (!is_mapped(at) || !is_mapped(at + n - 1))
        return 0;
    memcpy(to, (const void *)(uintptr_t)at, n);
    return 1;
}

uint64_t machine_number(uint64_t at, uint32_t size)
{
    uint64_t v = 0;
    return lua_peek(at, &v, size) ? v : 0;
}

uint64_t machine_ref(const struct machine *m, uint64_t at)
{
    return machine_number(at, m->at->ref);
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
    machine_forget();
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

const char *machine_find(struct machine *m, struct lua_State *L)
{
    if (!s_is_probed)
        probe();
    if (!s_layout.known)
        return s_layout.text;
    m->layout = &s_layout;
    m->at = luajit_offsets((int)s_layout.gc64);
    m->g = machine_ref(m, (uint64_t)(uintptr_t)L + m->at->thread_global);
    return NULL;
}

/* -- the state -- */

static uint32_t type_of(const struct machine *m, uint64_t object)
{
    return (uint32_t)machine_number(object + m->at->gct, 1);
}

uint64_t machine_thread(const struct machine *m)
{
    const uint64_t L = machine_ref(m, m->g + m->layout->cur_l);
    const bool is_one = L && type_of(m, L) == GCT_THREAD && machine_ref(m, L + m->at->thread_global) == m->g;
    return is_one ? L : 0;
}

uint64_t machine_cframe(const struct machine *m)
{
    const uint64_t L = machine_thread(m);
    return L ? machine_number(L + m->at->thread_cframe, 8) & ~3ULL : 0;
}

/* -- functions -- */

static uint64_t proto_of(const struct machine *m, uint64_t function)
{
    if (type_of(m, function) != GCT_FUNC || machine_number(function + m->at->ffid, 1) != FF_LUA)
        return 0;
    const uint64_t proto = machine_ref(m, function + m->at->func_pc) - m->at->proto_code;
    return type_of(m, proto) == GCT_PROTO ? proto : 0;
}

uint64_t machine_first_line(const struct machine *m, uint64_t proto)
{
    return (uint64_t)(int64_t)(int32_t)machine_number(proto + m->at->proto_first, 4);
}

/* The line of the instruction at pc; 0 = not known. */
static uint32_t line_at(const struct machine *m, uint64_t proto, uint64_t pc)
{
    const uint64_t code = proto + m->at->proto_code;
    const uint32_t count = (uint32_t)machine_number(proto + m->at->proto_count, 4);
    const uint32_t lines = (uint32_t)machine_number(proto + m->at->proto_line_count, 4);
    const uint32_t width = lines < 256 ? 1 : lines < 65536 ? 2 : 4;
    const uint64_t table = machine_ref(m, proto + m->at->proto_lines), first = machine_first_line(m, proto);
    if (pc < code || pc >= code + 4 * (uint64_t)count || !table)
        return 0;
    const uint64_t i = (pc - code) / 4; /* 0 is the function's header */
    return (uint32_t)(first + (i ? machine_number(table + (i - 1) * width, width) : 0));
}

uint32_t machine_chunk(const struct machine *m, uint64_t proto, const char **text)
{
    const uint64_t name = machine_ref(m, proto + m->at->proto_chunk);
    const uint64_t at = name + m->layout->string_header;
    uint32_t n = 0;
    while (is_mapped(at + n) && *(const char *)(uintptr_t)(at + n))
        n++;
    *text = (const char *)(uintptr_t)at;
    return n;
}

bool machine_trace(const struct machine *m, uint32_t trace, uint64_t *proto, uint32_t *line)
{
    if (!m->layout->traces)
        return false;
    const uint64_t table = machine_number(m->g + m->layout->traces, 8);
    const uint64_t at = machine_ref(m, table + (uint64_t)trace * m->at->ref);
    if (!at || type_of(m, at) != GCT_TRACE)
        return false;
    *proto = machine_ref(m, at + m->at->trace_start);
    *line = line_at(m, *proto, machine_ref(m, at + m->at->trace_startpc));
    return type_of(m, *proto) == GCT_PROTO;
}

/* -- the Lua stack -- */

static bool is_wide(const struct machine_walk *w)
{
    return w->m->layout->gc64;
}

static bool inside(const struct machine_walk *w, uint64_t frame)
{
    return frame > w->bottom && frame < w->top && !(frame & 7);
}

static int64_t link_of(const struct machine_walk *w, uint64_t frame)
{
    return is_wide(w) ? (int64_t)machine_number(frame, 8) : (int32_t)machine_number(frame + 4, 4);
}

static uint64_t function_of(const struct machine_walk *w, uint64_t frame)
{
    return is_wide(w) ? machine_number(frame - 8, 8) & ((1ULL << 47) - 1) : machine_number(frame, 4);
}

static uint64_t cframe_pc(const struct machine_walk *w)
{
    const uint64_t pc = w->cframe ? machine_ref(w->m, w->cframe + w->m->layout->cframe_pc) : 0;
    return pc == w->L ? 0 : pc;
}

/* The address after the instruction that the current frame executes; 0 = not known. */
static uint64_t return_pc(const struct machine_walk *w)
{
    if (!w->next)
        return w->pc ? w->pc : cframe_pc(w);
    const int64_t link = link_of(w, w->next);
    if ((link & 3) == LINK_LUA)
        return is_wide(w) ? (uint64_t)link : (uint32_t)link;
    if ((link & 3) == LINK_CONTINUED)
        return is_wide(w) ? machine_number(w->next - 16, 8) : machine_number(w->next - 4, 4);
    return cframe_pc(w);
}

/* Go to the frame below. */
static void step(struct machine_walk *w)
{
    const int64_t link = link_of(w, w->frame);
    const uint32_t slots = is_wide(w) ? 2 : 1;
    const uint64_t pc = is_wide(w) ? (uint64_t)link : (uint32_t)link;
    uint64_t below = w->frame - (uint64_t)(link & ~7LL);
    if ((link & 3) == LINK_LUA)
        below = w->frame - 8 * (slots + (machine_number(pc - 4, 4) >> 8 & 0xff));
    if ((link & 3) == LINK_C)
        w->cframe = w->cframe ? machine_number(w->cframe + w->m->layout->cframe_prev, 8) & ~3ULL : 0;
    w->next = w->frame;
    w->frame = below < w->frame && inside(w, below) ? below : 0;
}

/* Use the registers of the interpreter if the frame's function contains this instruction, or is a fast function that
 * returns to it. */
static void use_registers(struct machine_walk *w, uint64_t base, uint64_t pc)
{
    const uint64_t frame = base - 8;
    if (!inside(w, frame))
        return;
    const uint64_t function = function_of(w, frame), proto = proto_of(w->m, function);
    if (proto && line_at(w->m, proto, pc - 4)) {
        w->frame = frame;
        w->pc = pc;
    } else if (!proto && type_of(w->m, function) == GCT_FUNC && link_of(w, frame) == (int64_t)pc)
        w->frame = frame;
}

void machine_walk(struct machine_walk *w, const struct machine *m, uint64_t base, uint64_t pc)
{
    const uint64_t L = machine_thread(m);
    *w = (struct machine_walk){.m = m, .L = L};
    if (!L)
        return;
    const uint64_t stack = machine_ref(m, L + m->at->thread_stack);
    w->bottom = stack + (is_wide(w) ? 8 : 0);
    w->top = stack + 8 * machine_number(L + m->at->thread_size, 4);
    w->cframe = machine_cframe(m);
    w->frame = machine_ref(m, L + m->at->thread_base) - 8;
    if (!inside(w, w->frame))
        w->frame = 0;
    if (base)
        use_registers(w, base, pc);
}

/* Describe the current frame. Returns false if it is no function's. */
static bool describe(const struct machine_walk *w, struct machine_frame *f)
{
    const struct machine *m = w->m;
    const uint64_t function = function_of(w, w->frame), proto = proto_of(m, function);
    *f = (struct machine_frame){.function = function, .proto = proto};
    if (type_of(m, function) != GCT_FUNC)
        return false;
    if (proto) {
        f->kind = FRAME_LUA;
        f->line = line_at(m, proto, return_pc(w) - 4);
        f->has_lines = machine_ref(m, proto + m->at->proto_lines) != 0;
        return true;
    }
    f->ffid = (uint32_t)machine_number(function + m->at->ffid, 1);
    f->kind = f->ffid > FF_C ? FRAME_FAST : FRAME_C;
    f->code = machine_number(function + m->at->func_c, 8);
    return f->ffid >= FF_C;
}

bool machine_next(struct machine_walk *w, struct machine_frame *f)
{
    while (w->frame) {
        const bool is_function = describe(w, f);
        const bool is_vararg = (link_of(w, w->frame) & 7) == LINK_VARG;
        step(w);
        if (is_vararg && w->frame)
            step(w); /* the same function's own frame */
        if (is_function)
            return true;
    }
    return false;
}

/* -- what the machine does -- */

/* Is the compiler at work? While a trace is recorded, the interpreter still executes one instruction after another. The
 * compiler is called by an entry into the VM of its own, which executes no instruction. */
static bool compiles(const struct machine *m)
{
    const struct machine_walk w = {.m = m, .L = machine_thread(m), .cframe = machine_cframe(m)};
    return cframe_pc(&w) == 0;
}

uint32_t machine_doing(const struct machine *m, uint32_t *trace)
{
    const int32_t state = (int32_t)machine_number(m->g + m->layout->vmstate, 4);
    *trace = state > 0 ? (uint32_t)state : 0;
    if (state > 0)
        return MT_VM_TRACE;
    const uint32_t doing =
        ~(uint32_t)state < LUA_LAYOUT_VM_STATES ? m->layout->vm[~state] : (uint32_t)MT_VM_C;
    return doing == MT_VM_RECORD && !compiles(m) ? (uint32_t)MT_VM_INTERP : doing;
}
