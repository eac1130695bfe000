/* references.c - the references of each object.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * They are written as pairs of addresses, in one record for an object or for a part of a large one. A target
 * that is not an object (in an unused slot of a stack) is ignored by the collector.
 */
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/snapshot/snapshot_impl.h"
#include "ljtrace/luajit/stack/frames.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

enum { BATCH = 1000, MOST_SLOTS = 1 << 28 };
enum { IRT_MASK = 0x1f, IRT_PTR32 = 5, IRT_PTR64 = 9, IR_BIAS_TRUE = 0x7ffd };

/* References of one object that are not written yet. */
struct batch {
    uint64_t from;
    uint32_t count;
    struct raw_link link[BATCH];
};
TABLE(struct batch, s_batch, 1);

static void send(void)
{
    if (s_batch->count)
        HOST_PUT(links, .from = s_batch->from, .links = s_batch->link, .links_count = s_batch->count);
    s_batch->count = 0;
}

/* Add a reference. name: an index, or the key of a name that was written. */
static void link(uint64_t to, uint32_t kind, bool weak, uint64_t name)
{
    if (!to)
        return;
    if (s_batch->count == BATCH)
        send();
    s_batch->link[s_batch->count++] = (struct raw_link){to, raw_link_what(kind, weak, name)};
}

static void link_value(const struct snapshot *u, uint64_t slot, uint32_t kind, uint64_t name)
{
    uint32_t gct;
    link(object_value(u, slot, &gct), kind, false, name);
}

static void link_ref(const struct snapshot *u, uint64_t at, uint32_t kind)
{
    link(lt_vm_ref(u->vm, at), kind, false, 0);
}

/* -- tables -- */

/* Strings count as values: they are never cleared from weak tables. */
static bool is_weak(bool weak, uint32_t gct)
{
    return weak && gct != GCT_STR;
}

static void link_array(const struct snapshot *u, uint64_t o, uint32_t mode)
{
    uint32_t n = lt_vm_u32(o + u->at->tab_asize), gct;
    uint64_t slot = lt_vm_ref(u->vm, o + u->at->tab_array);
    for (uint32_t i = 0; i < n && i < MOST_SLOTS && program_readable(slot, 8); i++, slot += 8) {
        uint64_t to = object_value(u, slot, &gct);
        if (to)
            link(to, MT_LINK_ARRAY, is_weak(mode & 2, gct), i);
    }
}

/* A pair exists only if its value is not nil. */
static bool is_nil(const struct snapshot *u, uint64_t slot)
{
    uint64_t v = program_number(slot, 8);
    return u->vm->layout->gc64 ? v == ~0ULL : v >> 32 == 0xffffffff;
}

static void link_pair(const struct snapshot *u, uint64_t node, uint32_t mode)
{
    uint32_t key_type = 0, value_type = 0;
    if (is_nil(u, node))
        return;
    uint64_t key = object_value(u, node + 8, &key_type), value = object_value(u, node, &value_type);
    if (key)
        link(key, MT_LINK_KEY, is_weak(mode & 1, key_type), 0);
    if (value)
        link(value, MT_LINK_VALUE, is_weak(mode & 2, value_type),
             key && key_type == GCT_STR ? snapshot_string(u, key) : snapshot_plain_key(u, node + 8));
}

static void link_table(const struct snapshot *u, uint64_t o)
{
    uint64_t meta = lt_vm_ref(u->vm, o + u->at->tab_meta), node = lt_vm_ref(u->vm, o + u->at->tab_node);
    uint32_t mode = table_mode(u, meta), mask = lt_vm_u32(o + u->at->tab_asize + 4);
    link(meta, MT_LINK_METATABLE, false, 0);
    link_array(u, o, mode);
    for (uint32_t i = 0; mask && i <= mask && program_readable(node, NODE_BYTES); i++, node += NODE_BYTES)
        link_pair(u, node, mode);
}

/* -- functions -- */

/* The names of upvalues follow one another in memory. */
static uint64_t next_text(uint64_t at)
{
    for (uint32_t i = 0; i < SNAPSHOT_TEXT && program_number(at, 1); i++)
        at++;
    return at + 1;
}

static void link_upvalues(const struct snapshot *u, uint64_t o, uint64_t proto, uint32_t n)
{
    uint64_t name = lt_vm_ref(u->vm, proto + u->at->proto_upvalues);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t upvalue = lt_vm_ref(u->vm, o + u->at->lua_func_bytes + (uint64_t)i * u->at->ref);
        link(upvalue, MT_LINK_UPVALUE, false, name ? snapshot_text(name) : 0);
        name = name ? next_text(name) : 0;
    }
}

static void link_function(const struct snapshot *u, uint64_t o)
{
    uint32_t n = (uint32_t)program_number(o + u->at->func_upvalues, 1);
    uint64_t proto = lt_proto_of(u->vm, o);
    link_ref(u, o + u->at->env, MT_LINK_ENV);
    link(proto, MT_LINK_PROTO, false, 0);
    if (proto)
        link_upvalues(u, o, proto, n);
    else if (program_number(o + u->at->ffid, 1) != FFID_LUA)
        for (uint32_t i = 0; i < n; i++)
            link_value(u, o + u->at->c_func_bytes + (uint64_t)i * 8, MT_LINK_UPVALUE, 0);
}

static uint64_t trace_at(const struct snapshot *u, uint32_t number)
{
    if (!u->vm->layout->traces || !number)
        return 0;
    uint64_t table = program_number(u->vm->g + u->vm->layout->traces, 8);
    uint32_t count = lt_vm_u32(u->vm->g + u->vm->layout->traces + 12);
    return number < count ? lt_vm_ref(u->vm, table + (uint64_t)number * u->at->ref) : 0;
}

static void link_proto(const struct snapshot *u, uint64_t o)
{
    uint64_t k = lt_vm_ref(u->vm, o + u->at->proto_k);
    uint32_t n = lt_vm_u32(o + u->at->proto_constants);
    link_ref(u, o + u->at->proto_chunk, MT_LINK_OTHER);
    for (uint32_t i = 1; i <= n && i < 65536; i++) {
        uint64_t to = lt_vm_ref(u->vm, k - (uint64_t)i * u->at->ref);
        link(to, to && lt_vm_gct(u->vm, to) == GCT_PROTO ? MT_LINK_PROTO : MT_LINK_CONSTANT, false, 0);
    }
    link(trace_at(u, (uint32_t)program_number(o + u->at->proto_trace, 2)), MT_LINK_OTHER, false, 0);
}

/* -- traces -- */

/* The object that an instruction contains; 0 = none. The number of this instruction differs between builds,
 * so it is recognised by its type, if there is an object of that type where it points. */
static uint64_t constant_at(const struct snapshot *u, uint64_t instruction)
{
    uint32_t type = (uint32_t)program_number(instruction + 4, 1) & IRT_MASK;
    if (type < GCT_STR || type > GCT_UDATA || type == IRT_PTR32 || type == IRT_PTR64)
        return 0;
    uint64_t to = lt_vm_ref(u->vm, instruction + (u->vm->layout->gc64 ? 8 : 0));
    return to && !(to & 3) && lt_vm_gct(u->vm, to) == type ? to : 0;
}

static void link_trace(const struct snapshot *u, uint64_t o)
{
    uint64_t ir = program_number(o + u->at->trace_ir, 8);
    uint32_t first = lt_vm_u32(o + u->at->trace_nk);
    for (uint32_t i = first; i < IR_BIAS_TRUE && program_readable(ir + (uint64_t)i * 8, 16); i++) {
        uint64_t to = constant_at(u, ir + (uint64_t)i * 8);
        link(to, MT_LINK_CONSTANT, false, 0);
        if (to && u->vm->layout->gc64)
            i++;
    }
    link_ref(u, o + u->at->trace_start, MT_LINK_PROTO);
    /* The traces that it links to, its root, and other side traces of that root. */
    for (uint32_t i = 1; i < 5; i++) {
        uint64_t other = trace_at(u, (uint32_t)program_number(o + u->at->trace_number + 2 * i, 2));
        link(other != o ? other : 0, MT_LINK_OTHER, false, 0);
    }
}

/* -- threads -- */

/* The end of the used part of a stack. The top is up to date only in C functions; a Lua function may use its
 * whole frame. */
static uint64_t end_of_stack(const struct snapshot *u, uint64_t o, uint64_t stack, uint64_t end)
{
    uint64_t base = lt_vm_ref(u->vm, o + u->at->thread_base),
             top = lt_vm_ref(u->vm, o + u->at->thread_base + u->at->ref);
    uint64_t callee = lt_vm_ref(u->vm, base - (u->vm->layout->gc64 ? 16 : 8)) & (((uint64_t)1 << 47) - 1);
    uint64_t proto = lt_proto_of(u->vm, callee);
    if (proto) /* the size of its frame is at the same offset as a function's number of upvalues */
        base += 8 * program_number(proto + u->at->func_upvalues, 1);
    if (proto && base > top)
        top = base;
    return top > stack && top <= end ? top : end;
}

/* What one frame has: its slots from `from` on, up to the frame above. proto: 0 = its function is not one of Lua. */
static void link_slots(const struct snapshot *u, uint64_t from, uint64_t end, uint64_t proto, uint64_t pc)
{
    uint32_t gct;
    for (uint64_t slot = from; slot < end; slot += 8) {
        const uint64_t to = object_value(u, slot, &gct);
        if (to)
            link(to, MT_LINK_STACK, false,
                 proto ? snapshot_local(u, proto, pc, (uint32_t)(slot - from) / 8) : 0);
    }
}

/* Is this the thread that runs in machine code of a trace? Then begin at the trace's base: the thread's own is not up to
 * date, and what is above is in registers. The function is where the trace begins, if that is in it. Returns the end of its
 * frame; 0 = it is not. */
static uint64_t begin_on_trace(const struct snapshot *u, uint64_t o, struct lt_frames *f)
{
    const struct lua_layout *layout = u->vm->layout;
    const uint64_t base = layout->jit_base && lt_vm_ref(u->vm, u->vm->g + layout->cur_l) == o
                              ? lt_vm_ref(u->vm, u->vm->g + layout->jit_base)
                              : 0;
    const int32_t state = (int32_t)lt_vm_u32(u->vm->g + layout->vmstate);
    const uint64_t trace = state > 0 ? trace_at(u, (uint32_t)state) : 0;
    if (!base || !lt_frames_inside(f, base - 8))
        return 0;
    f->frame = base - 8;
    f->pc = trace ? lt_vm_ref(u->vm, trace + u->at->trace_startpc) + 4 : 4;
    const uint64_t proto = lt_proto_of(u->vm, lt_frame_function(u->vm, f->frame, true));
    return base + (proto ? 8 * program_number(proto + u->at->func_upvalues, 1) : 0);
}

/* The used part of a stack, frame by frame from the innermost one: the values in slots, which may be local variables, and
 * the functions. What is below the last frame that can be followed has no names. */
static void link_stack(const struct snapshot *u, uint64_t o, uint64_t end)
{
    static const struct lt_reading reading = {true, NULL};
    enum { MOST_FRAMES = 1 << 20 };
    struct lt_frames f = {.vm = u->vm,
                          .cframe = program_number(o + u->vm->at->thread_cframe, 8) & ~(uint64_t)3};
    const uint64_t stack = lt_vm_ref(u->vm, o + u->at->thread_stack);
    lt_frames_begin(&f, o);
    const uint64_t traced = begin_on_trace(u, o, &f);
    if (traced && traced < f.top)
        end = traced;
    bool more = lt_frames_inside(&f, f.frame) && f.frame < end, is_pseudo = false;
    for (uint32_t i = 0; more && i < MOST_FRAMES; i++) {
        const uint64_t function = lt_frame_function(u->vm, f.frame, true), at = f.frame,
                       pc = lt_frames_return_pc(&f, reading),
                       proto = lt_vm_gct(u->vm, function) == GCT_FUNC ? lt_proto_of(u->vm, function) : 0;
        const bool is_known = !is_pseudo && proto && pc && lt_line_at(u->vm, proto, pc - 4);
        link_slots(u, at + 8, end, is_known ? proto : 0, pc - 4);
        link(function, MT_LINK_STACK, false, 0);
        is_pseudo = (lt_frame_link(u->vm, at, true) & 7) == LINK_VARG; /* below are its arguments only */
        more = lt_frames_step(&f, reading);
        end = at - (u->vm->layout->gc64 ? 8 : 0); /* the function is linked */
    }
    link_slots(u, stack + 8, end, 0, 0);
}

static void link_thread(const struct snapshot *u, uint64_t o)
{
    uint64_t stack = lt_vm_ref(u->vm, o + u->at->thread_stack);
    uint64_t end = stack + 8 * (uint64_t)lt_vm_u32(o + u->at->thread_size);
    link_ref(u, o + u->at->thread_env, MT_LINK_ENV);
    if (program_readable(stack, end - stack))
        link_stack(u, o, end_of_stack(u, o, stack, end));
}

static void link_udata(const struct snapshot *u, uint64_t o)
{
    struct snapshot_buffer b;
    link_ref(u, o + u->at->tab_meta, MT_LINK_METATABLE);
    link_ref(u, o + u->at->env, MT_LINK_ENV);
    if (!snapshot_buffer(u, o, &b))
        return;
    link(b.borrowed, MT_LINK_OTHER, false, 0);
    link(b.strings, MT_LINK_OTHER, false, 0);
    link(b.metatables, MT_LINK_OTHER, false, 0);
}

void snapshot_links(struct snapshot *u, uint64_t o)
{
    s_batch->from = o;
    s_batch->count = 0;
    switch (lt_vm_gct(u->vm, o)) {
    case GCT_UPVAL:
        link_value(u, lt_vm_ref(u->vm, o + u->at->upval_value), MT_LINK_UPVALUE, 0);
        break;
    case GCT_THREAD:
        link_thread(u, o);
        break;
    case GCT_PROTO:
        link_proto(u, o);
        break;
    case GCT_FUNC:
        link_function(u, o);
        break;
    case GCT_TRACE:
        link_trace(u, o);
        break;
    case GCT_TAB:
        link_table(u, o);
        break;
    case GCT_UDATA:
        link_udata(u, o);
        break;
    default:
        break;
    }
    send();
}
