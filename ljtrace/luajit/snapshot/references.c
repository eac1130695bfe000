/* references.c - the references of each object. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * They are written as pairs of addresses, in one record for an object or for a part of a large one. A target
 * that is not an object (in an unused slot of a stack) is ignored by the collector.
 */
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/snapshot/snapshot_impl.h"
#include "ljtrace/protocol/table.h"
#include "ljtrace/valgrind/ring/records.h"
#include "memtrace/memtrace.h"

enum { BATCH = 1000, MOST_SLOTS = 1 << 28 };
enum { IRT_MASK = 0x1f, IRT_PTR32 = 5, IRT_PTR64 = 9, IR_BIAS_TRUE = 0x7ffd };

/* References of one object that are not written yet. */
struct batch {
    Addr from;
    UInt count;
    struct raw_link link[BATCH];
};
TABLE(struct batch, s_batch, 1);

static void send(void)
{
    if (s_batch->count)
        RING_PUT(links, .from = s_batch->from, .links = s_batch->link, .links_count = s_batch->count);
    s_batch->count = 0;
}

/* Add a reference. name: an index, or the key of a name that was written. */
static void link(Addr to, UInt kind, Bool weak, ULong name)
{
    if (!to)
        return;
    if (s_batch->count == BATCH)
        send();
    s_batch->link[s_batch->count++] = (struct raw_link){to, raw_link_what(kind, weak, name)};
}

static void link_value(const struct snapshot *u, Addr slot, UInt kind, ULong name)
{
    UInt gct;
    link(object_value(u, slot, &gct), kind, False, name);
}

static void link_ref(const struct snapshot *u, Addr at, UInt kind)
{
    link(lt_vm_ref(u->vm, at), kind, False, 0);
}

/* -- tables -- */

/* Strings count as values: they are never cleared from weak tables. */
static Bool is_weak(Bool weak, UInt gct)
{
    return weak && gct != GCT_STR;
}

static void link_array(const struct snapshot *u, Addr o, UInt mode)
{
    UInt n = lt_vm_u32(o + u->at->tab_asize), gct;
    Addr slot = lt_vm_ref(u->vm, o + u->at->tab_array);
    for (UInt i = 0; i < n && i < MOST_SLOTS && lt_guest_readable(slot, 8); i++, slot += 8) {
        Addr to = object_value(u, slot, &gct);
        if (to)
            link(to, MT_LINK_ARRAY, is_weak(mode & 2, gct), i);
    }
}

/* A pair exists only if its value is not nil. */
static Bool is_nil(const struct snapshot *u, Addr slot)
{
    ULong v = lt_guest_number(slot, 8);
    return u->vm->layout->gc64 ? v == ~0ULL : v >> 32 == 0xffffffff;
}

static void link_pair(const struct snapshot *u, Addr node, UInt mode)
{
    UInt key_type = 0, value_type = 0;
    if (is_nil(u, node))
        return;
    Addr key = object_value(u, node + 8, &key_type), value = object_value(u, node, &value_type);
    if (key)
        link(key, MT_LINK_KEY, is_weak(mode & 1, key_type), 0);
    if (value)
        link(value, MT_LINK_VALUE, is_weak(mode & 2, value_type),
             key && key_type == GCT_STR ? snapshot_string(u, key) : snapshot_plain_key(u, node + 8));
}

static void link_table(const struct snapshot *u, Addr o)
{
    Addr meta = lt_vm_ref(u->vm, o + u->at->tab_meta), node = lt_vm_ref(u->vm, o + u->at->tab_node);
    UInt mode = table_mode(u, meta), mask = lt_vm_u32(o + u->at->tab_asize + 4);
    link(meta, MT_LINK_METATABLE, False, 0);
    link_array(u, o, mode);
    for (UInt i = 0; mask && i <= mask && lt_guest_readable(node, NODE_BYTES); i++, node += NODE_BYTES)
        link_pair(u, node, mode);
}

/* -- functions -- */

/* The names of upvalues follow one another in memory. */
static Addr next_text(Addr at)
{
    for (UInt i = 0; i < SNAPSHOT_TEXT && lt_guest_number(at, 1); i++)
        at++;
    return at + 1;
}

static void link_upvalues(const struct snapshot *u, Addr o, Addr proto, UInt n)
{
    Addr name = lt_vm_ref(u->vm, proto + u->at->proto_upvalues);
    for (UInt i = 0; i < n; i++) {
        Addr upvalue = lt_vm_ref(u->vm, o + u->at->lua_func_bytes + (Addr)i * u->at->ref);
        link(upvalue, MT_LINK_UPVALUE, False, name ? snapshot_text(name) : 0);
        name = name ? next_text(name) : 0;
    }
}

static void link_function(const struct snapshot *u, Addr o)
{
    UInt n = (UInt)lt_guest_number(o + u->at->func_upvalues, 1);
    Addr proto = lt_proto_of(u->vm, o);
    link_ref(u, o + u->at->env, MT_LINK_ENV);
    link(proto, MT_LINK_PROTO, False, 0);
    if (proto)
        link_upvalues(u, o, proto, n);
    else if (lt_guest_number(o + u->at->ffid, 1) != FFID_LUA)
        for (UInt i = 0; i < n; i++)
            link_value(u, o + u->at->c_func_bytes + (Addr)i * 8, MT_LINK_UPVALUE, 0);
}

static Addr trace_at(const struct snapshot *u, UInt number)
{
    if (!u->vm->layout->traces || !number)
        return 0;
    Addr table = lt_guest_number(u->vm->g + u->vm->layout->traces, 8);
    UInt count = lt_vm_u32(u->vm->g + u->vm->layout->traces + 12);
    return number < count ? lt_vm_ref(u->vm, table + (Addr)number * u->at->ref) : 0;
}

static void link_proto(const struct snapshot *u, Addr o)
{
    Addr k = lt_vm_ref(u->vm, o + u->at->proto_k);
    UInt n = lt_vm_u32(o + u->at->proto_constants);
    link_ref(u, o + u->at->proto_chunk, MT_LINK_OTHER);
    for (UInt i = 1; i <= n && i < 65536; i++) {
        Addr to = lt_vm_ref(u->vm, k - (Addr)i * u->at->ref);
        link(to, to && lt_vm_gct(u->vm, to) == GCT_PROTO ? MT_LINK_PROTO : MT_LINK_CONSTANT, False, 0);
    }
    link(trace_at(u, (UInt)lt_guest_number(o + u->at->proto_trace, 2)), MT_LINK_OTHER, False, 0);
}

/* -- traces -- */

/* The object that an instruction contains; 0 = none. The number of this instruction differs between builds,
 * so it is recognised by its type, if there is an object of that type where it points. */
static Addr constant_at(const struct snapshot *u, Addr instruction)
{
    UInt type = (UInt)lt_guest_number(instruction + 4, 1) & IRT_MASK;
    if (type < GCT_STR || type > GCT_UDATA || type == IRT_PTR32 || type == IRT_PTR64)
        return 0;
    Addr to = lt_vm_ref(u->vm, instruction + (u->vm->layout->gc64 ? 8 : 0));
    return to && !(to & 3) && lt_vm_gct(u->vm, to) == type ? to : 0;
}

static void link_trace(const struct snapshot *u, Addr o)
{
    Addr ir = lt_guest_number(o + u->at->trace_ir, 8);
    UInt first = lt_vm_u32(o + u->at->trace_nk);
    for (UInt i = first; i < IR_BIAS_TRUE && lt_guest_readable(ir + (Addr)i * 8, 16); i++) {
        Addr to = constant_at(u, ir + (Addr)i * 8);
        link(to, MT_LINK_CONSTANT, False, 0);
        if (to && u->vm->layout->gc64)
            i++;
    }
    link_ref(u, o + u->at->trace_start, MT_LINK_PROTO);
    /* The traces that it links to, its root, and other side traces of that root. */
    for (UInt i = 1; i < 5; i++) {
        Addr other = trace_at(u, (UInt)lt_guest_number(o + u->at->trace_number + 2 * i, 2));
        link(other != o ? other : 0, MT_LINK_OTHER, False, 0);
    }
}

/* -- threads -- */

/* The end of the used part of a stack. The top is up to date only in C functions; a Lua function may use its
 * whole frame. */
static Addr end_of_stack(const struct snapshot *u, Addr o, Addr stack, Addr end)
{
    Addr base = lt_vm_ref(u->vm, o + u->at->thread_base),
         top = lt_vm_ref(u->vm, o + u->at->thread_base + u->at->ref);
    Addr callee = lt_vm_ref(u->vm, base - (u->vm->layout->gc64 ? 16 : 8)) & (((Addr)1 << 47) - 1);
    Addr proto = lt_proto_of(u->vm, callee);
    if (proto) /* the size of its frame is at the same offset as a function's number of upvalues */
        base += 8 * lt_guest_number(proto + u->at->func_upvalues, 1);
    if (proto && base > top)
        top = base;
    return top > stack && top <= end ? top : end;
}

/* With 4-byte references a frame's function is in the same slot as the link to the frame before, without a
 * tag. The link is the caller's program counter (the instruction before it contains the distance) or the
 * distance itself. */
static void link_frames(const struct snapshot *u, Addr o, Addr stack)
{
    enum { KIND = 3, FLAGS = 7, OPERAND_A = 3 };
    Addr frame = lt_vm_ref(u->vm, o + u->at->thread_base) - 8,
         size = 8 * (Addr)lt_vm_u32(o + u->at->thread_size);
    while (frame > stack && frame < stack + size) {
        UInt back = lt_vm_u32(frame + 4);
        link(lt_vm_u32(frame), MT_LINK_STACK, False, (frame - stack) / 8);
        Addr step = back & KIND ? back & ~(UInt)FLAGS : 8 * (1 + lt_guest_number((Addr)back - OPERAND_A, 1));
        if (!step)
            return;
        frame -= step;
    }
}

static void link_thread(const struct snapshot *u, Addr o)
{
    Addr stack = lt_vm_ref(u->vm, o + u->at->thread_stack);
    Addr end = stack + 8 * (Addr)lt_vm_u32(o + u->at->thread_size);
    link_ref(u, o + u->at->thread_env, MT_LINK_ENV);
    if (!lt_guest_readable(stack, end - stack))
        return;
    if (!u->vm->layout->gc64)
        link_frames(u, o, stack);
    end = end_of_stack(u, o, stack, end);
    for (Addr slot = stack + 8; slot < end; slot += 8)
        link_value(u, slot, MT_LINK_STACK, (slot - stack) / 8);
}

static void link_udata(const struct snapshot *u, Addr o)
{
    struct snapshot_buffer b;
    link_ref(u, o + u->at->tab_meta, MT_LINK_METATABLE);
    link_ref(u, o + u->at->env, MT_LINK_ENV);
    if (!snapshot_buffer(u, o, &b))
        return;
    link(b.borrowed, MT_LINK_OTHER, False, 0);
    link(b.strings, MT_LINK_OTHER, False, 0);
    link(b.metatables, MT_LINK_OTHER, False, 0);
}

void snapshot_links(struct snapshot *u, Addr o)
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
