/* walk.c - walk over the frames of a Lua stack, from the innermost to the outermost. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * LuaJIT has two stacks. On the C stack, each entry into the VM has a frame of its own (cframe). On the Lua
 * stack, each frame has a link to the next one, with its kind in the low bits. A Lua frame belongs to the
 * innermost cframe around it, so the Lua frames replace the interpreter's frame on the C stack. The program
 * counter of a Lua frame is the return address in the frame above it; that of the innermost frame is in the
 * cframe.
 *
 * Begin at lt_walk_lua, at the end.
 */
#include "ljtrace/luajit/stack/walk.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/luajit/stack/cache.h"
#include "ljtrace/luajit/stack/coroutine.h"
#include "ljtrace/luajit/stack/parser.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"
#include "pub_tool_libcbase.h"

enum { SEEN_SLOTS = 2048, MOST_STEPS = 100000 };

/* A cache of frames: the same function at the same place has the same key, until a prototype is freed. */
struct seen {
    const struct lt_vm *vm;
    Addr function, pc; /* pc: after the instruction */
    UInt generation;
    Addr proto, key;
};
TABLE(struct seen, s_seen, SEEN_SLOTS);

/* A walk over a Lua stack. */
struct walk {
    struct lt_vm *vm;
    Addr L, bottom, top;
    UInt steps;
    Addr frame, next; /* the current frame, and the one above; 0 = it is the innermost */
    Addr cframe;
    Addr outermost; /* the thread's first cframe; 0 = not reached yet */
    const struct lt_stack *host;
    Addr pc; /* of the innermost frame if it is in a register; else 0 */
    struct lua_frames *out;
    /* Functions that are named by their caller, which is found next: a Lua function, and a fast function
     * above it. */
    Addr fast; /* 0 = none */
    struct lt_place pending;
    Bool has_pending;
    Addr fast_cframe, pending_cframe;
    struct seen *fast_seen, *pending_seen; /* where to cache their keys; NULL = nowhere */
};

static struct seen *seen_slot(Addr function, Addr pc)
{
    return &s_seen[lt_hash_slot(function ^ pc * 31, 11)];
}

static Bool is_seen(const struct seen *s, const struct lt_vm *vm, Addr function, Addr pc)
{
    return s->function == function && s->pc == pc && s->vm == vm && s->key &&
           s->generation == lt_places_generation();
}

/* Cache a frame's key. */
static Addr keep(struct seen *s, Addr key)
{
    if (s)
        s->key = key;
    return key;
}

static Bool is_wide(const struct walk *w)
{
    return w->vm->layout->gc64;
}

/* The link of a frame. The stack's slots were checked to be readable. */
static Long link_of(const struct walk *w, Addr frame)
{
    return is_wide(w) ? *(Long *)frame : *(Int *)(frame + 4);
}

static Addr function_of(const struct walk *w, Addr frame)
{
    return is_wide(w) ? *(Addr *)(frame - 8) & (((Addr)1 << 47) - 1) : *(UInt *)frame;
}

static Addr cframe_pc(const struct walk *w)
{
    lt_stack_cache_note(w->cframe + w->vm->layout->cframe_pc);
    Addr pc = lt_vm_ref(w->vm, w->cframe + w->vm->layout->cframe_pc);
    return pc == w->L ? 0 : pc;
}

static Addr cframe_prev(const struct walk *w)
{
    lt_stack_cache_note(w->cframe + w->vm->layout->cframe_prev);
    return lt_guest_number(w->cframe + w->vm->layout->cframe_prev, 8) & ~(Addr)3;
}

/* Note the slots that identify a frame. If the frame above returns to Lua, its link also identifies the
 * function. */
static void note_frame(const struct walk *w)
{
    Bool wide = is_wide(w), known = wide && w->next && (link_of(w, w->next) & 3) == LINK_LUA;
    if (wide)
        lt_stack_cache_note(w->frame);
    if (!known)
        lt_stack_cache_note_function(w->frame - (wide ? 8 : 0));
}

/* The address after the instruction that the current frame executes; 0 = not known. */
static Addr return_pc(const struct walk *w)
{
    if (!w->next)
        return w->pc ? w->pc : cframe_pc(w);
    Long link = link_of(w, w->next);
    if ((link & 3) == LINK_LUA)
        return (Addr)link;
    if ((link & 3) == LINK_CONTINUED) {
        lt_stack_cache_note(w->next - (is_wide(w) ? 16 : 8));
        return is_wide(w) ? *(Addr *)(w->next - 16) : *(UInt *)(w->next - 4);
    }
    return cframe_pc(w);
}

static void add(struct walk *w, Addr key, Addr cframe)
{
    struct lua_frames *out = w->out;
    if (!key || out->count == LT_MOST_FRAMES)
        return;
    out->key[out->count] = key;
    out->cframe[out->count++] = cframe;
}

static void add_lined(struct walk *w, Addr key, Addr cframe)
{
    add(w, key, cframe);
    if (!w->out->lined && key)
        w->out->lined = w->out->count;
}

/* The caller was found, or there is none: name the functions that are waiting for it. */
static void settle(struct walk *w, Addr proto, Addr pc)
{
    if (w->fast)
        add(w, keep(w->fast_seen, lt_name_fast(w->vm, w->fast, proto, pc)), w->fast_cframe);
    w->fast = 0;
    if (!w->has_pending)
        return;
    w->pending.caller_proto = proto;
    w->pending.caller_pc = pc;
    add_lined(w, keep(w->pending_seen, lt_name_place(w->vm, &w->pending)), w->pending_cframe);
    w->has_pending = False;
}

static void visit_place(struct walk *w, const struct lt_place *place)
{
    settle(w, place->proto, place->pc);
    w->pending = *place;
    w->has_pending = True;
    w->pending_cframe = w->cframe;
    w->pending_seen = NULL;
}

/* A function that is waiting for its name may use the same cache slot, so it is named first. */
static void visit_new_frame(struct walk *w, Addr function, Addr pc, struct seen *seen)
{
    Addr proto = lt_proto_of(w->vm, function);
    const struct seen made = {w->vm, function, pc, lt_places_generation(), proto, 0};
    if (proto) {
        struct lt_place place = {.proto = proto, .pc = pc ? pc - 4 : 0};
        if (!pc || !lt_line_at(w->vm, proto, place.pc)) {
            place.pc = proto + w->vm->at->proto_code;
            place.approximate = True;
        }
        visit_place(w, &place);
        w->pending_seen = seen;
        *seen = made;
    } else if (lt_vm_gct(w->vm, function) == GCT_FUNC) {
        settle(w, 0, 0);
        if (lt_guest_number(function + w->vm->at->ffid, 1) > 1) {
            w->fast = function, w->fast_cframe = w->cframe;
            w->fast_seen = lt_fast_is_made(w->vm, function) ? NULL : seen;
            *seen = made;
        }
    }
}

static void visit_frame(struct walk *w)
{
    Addr function = function_of(w, w->frame), pc = return_pc(w);
    struct seen *seen = seen_slot(function, pc);
    if (!is_seen(seen, w->vm, function, pc)) {
        visit_new_frame(w, function, pc, seen);
        return;
    }
    settle(w, seen->proto, seen->proto && pc ? pc - 4 : 0);
    if (seen->proto)
        add_lined(w, seen->key, w->cframe);
    else
        add(w, seen->key, w->cframe);
}

static Bool inside(const struct walk *w, Addr frame)
{
    return frame > w->bottom && frame < w->top;
}

static void leave_cframe(struct walk *w)
{
    Addr before = cframe_prev(w);
    if (!before && w->cframe)
        w->outermost = w->cframe;
    w->cframe = before;
}

/* Step to the frame below. Returns false at the bottom. */
static Bool step(struct walk *w)
{
    w->steps++;
    note_frame(w);
    Long link = link_of(w, w->frame);
    Addr below;
    UInt kind = link & 3;
    if (kind == LINK_LUA)
        below = w->frame - 8 * (Addr)((is_wide(w) ? 2 : 1) +
                                      (lt_vm_u32((Addr)(is_wide(w) ? link : (UInt)link) - 4) >> 8 & 0xff));
    else
        below = w->frame - (Addr)(link & ~(Long)7);
    if (kind == LINK_C)
        leave_cframe(w);
    if (below >= w->frame)
        return False;
    w->next = w->frame;
    w->frame = below;
    return inside(w, below);
}

/* Are there as many frames as wanted, and one with a line? */
static Bool is_enough(const struct lua_frames *out)
{
    return out->count >= out->wanted && (out->lined || out->count == LT_MOST_FRAMES);
}

static Bool use_thread(struct walk *w, Addr L)
{
    const struct luajit_offsets *at = w->vm->at;
    Addr stack = lt_vm_ref(w->vm, L + at->thread_stack);
    Addr bytes = 8 * (Addr)lt_vm_u32(L + at->thread_size);
    w->L = L;
    w->bottom = stack + (is_wide(w) ? 8 : 0);
    w->top = stack + bytes;
    w->frame = lt_vm_ref(w->vm, L + at->thread_base) - 8;
    w->next = w->pc = w->outermost = 0;
    return lt_guest_readable(stack, bytes);
}

/* Is it the state's main thread, which nothing has resumed? The VM keeps it in front of the global state in one block,
 * so no other thread is that near. */
static Bool is_main_thread(const struct walk *w)
{
    const UInt least = w->vm->at->thread_size + sizeof(UInt); /* its size is the last field of a thread */
    return w->L < w->vm->g && w->vm->g - w->L < 2 * least;
}

/* At the bottom of a coroutine, continue with the thread that has resumed it. Returns false if there is none,
 * or if it is not known. */
static Bool go_on_with_resumer(struct walk *w)
{
    if (!w->outermost || w->cframe || is_main_thread(w))
        return False;
    struct lt_resumer r = lt_find_resumer(w->vm, w->host, w->outermost);
    if (!r.L || r.L == w->L || !use_thread(w, r.L))
        return False;
    w->cframe = r.cframe;
    lt_stack_cache_note(r.word & ~(Addr)7);
    lt_stack_cache_note_thread(r.L);
    return inside(w, w->frame);
}

/* Step to the frame below, in whichever thread. Returns false if there is none. */
static Bool go_on(struct walk *w)
{
    return step(w) || go_on_with_resumer(w);
}

/* Visit the current frame and all below. */
static void walk_down(struct walk *w)
{
    Bool more = inside(w, w->frame), is_pseudo = False;
    for (UInt i = 0; more && i < MOST_STEPS; i++) {
        if (!is_pseudo)
            visit_frame(w);
        if (is_enough(w->out)) {
            lt_stack_cache_cut(w->steps);
            break;
        }
        is_pseudo = (link_of(w, w->frame) & 7) == LINK_VARG; /* the same function's own frame is below */
        more = go_on(w);
    }
    settle(w, 0, 0);
}

static Bool begin(struct walk *w, struct lt_vm *vm, const struct lt_stack *host, struct lua_frames *out)
{
    Addr L = lt_vm_ref(vm, vm->g + vm->layout->cur_l);
    if (!L || lt_vm_gct(vm, L) != GCT_THREAD)
        return False;
    *w = (struct walk){.vm = vm, .host = host, .out = out};
    w->cframe = lt_guest_number(L + vm->at->thread_cframe, 8) & ~(Addr)3;
    return use_thread(w, L);
}

/* A trace is running: visit the functions inlined in it, then the frames below the trace's base. */
static void walk_trace(struct walk *w, const struct lt_spot *spot, SizeT size)
{
    struct lt_place place[32];
    UInt n = lt_trace_allocation(w->vm, spot, size, place, 32);
    w->frame = lt_vm_ref(w->vm, w->vm->g + w->vm->layout->jit_base) - 8;
    for (UInt i = 0; i < n && !place[i].is_below; i++)
        visit_place(w, &place[i]);
    if (n && inside(w, w->frame)) {
        Bool pseudo = (link_of(w, w->frame) & 7) == LINK_VARG;
        if (go_on(w) && (!pseudo || go_on(w)))
            walk_down(w);
    }
    settle(w, 0, 0);
}

/* An exit from a trace restores what the trace has left out, so the frame may not be on the stack yet. */
static void walk_exit(struct walk *w)
{
    Addr pc = cframe_pc(w), proto = pc ? lt_proto_holding(w->vm, pc - 4) : 0;
    if (proto && lt_proto_of(w->vm, function_of(w, w->frame)) != proto) {
        struct lt_place place = {.proto = proto, .pc = pc - 4};
        visit_place(w, &place);
    }
    walk_down(w);
}

/* Is the compiler at work? While a trace is recorded, the interpreter still executes one instruction after
 * another. */
static Bool is_compiling(const struct walk *w, UInt state)
{
    if (state != MT_VM_RECORD && state != MT_VM_OPT && state != MT_VM_ASM)
        return False;
    lt_stack_cache_give_up();
    return state != MT_VM_RECORD || lt_recording_works(w->vm, w->cframe);
}

static void put_part(struct walk *w, UInt state)
{
    if (state == MT_VM_GC)
        add(w, lt_name_part(LT_PART_GC), w->cframe);
    else if (is_compiling(w, state))
        add(w, lt_name_part(LT_PART_JIT), w->cframe);
    else if (state == MT_VM_EXIT)
        add(w, lt_name_part(LT_PART_EXIT), w->cframe);
}

/* The compiler is called in the middle of an instruction, before the program counter is saved; but the
 * compiler has a copy. */
static void use_recorder(struct walk *w)
{
    if (!w->vm->layout->recorder || w->pc || !inside(w, w->frame))
        return;
    Addr pc = lt_vm_ref(w->vm, w->vm->g + w->vm->layout->recorder + w->vm->at->recorder_pc);
    Addr proto = lt_proto_of(w->vm, function_of(w, w->frame));
    if (proto && lt_line_at(w->vm, proto, pc))
        w->pc = pc + 4;
}

/* The parser is called by a C function through an entry into the VM of its own. The caller of that C function
 * belongs to the entry before. */
static void put_parser(struct walk *w)
{
    if (!inside(w, w->frame))
        return;
    note_frame(w);
    if (lt_proto_of(w->vm, function_of(w, w->frame)))
        return;
    Addr key = lt_parser_key(w->vm, w->L, w->cframe);
    add_lined(w, key, w->cframe);
    if (key)
        w->cframe = cframe_prev(w);
    if (key)
        lt_stack_cache_give_up(); /* the line changes although the stacks do not */
}

/* Use the interpreter's registers, if they are consistent: the frame's function contains this bytecode, or it
 * is a fast function that returns to it. */
static void use_registers(struct walk *w, const struct registers *r)
{
    Addr frame = r->base - 8;
    if (r->base & 7 || !inside(w, frame))
        return;
    Addr function = function_of(w, frame), proto = lt_proto_of(w->vm, function);
    if (proto && lt_line_at(w->vm, proto, r->pc - 4)) {
        w->frame = frame;
        w->pc = r->pc;
    } else if (!proto && lt_vm_gct(w->vm, function) == GCT_FUNC && link_of(w, frame) == (Long)r->pc)
        w->frame = frame;
}

void lt_walk_lua(struct lt_vm *vm, const struct lt_stack *host, const struct registers *live, Addr code,
                 SizeT size, struct lua_frames *out)
{
    struct walk w;
    struct lt_spot spot;
    UInt state = lt_machine_state(vm);
    if (!begin(&w, vm, host, out))
        return;
    if (live)
        use_registers(&w, live);
    if (is_compiling(&w, state))
        use_recorder(&w);
    if (state == MT_VM_EXIT)
        lt_stack_cache_give_up();
    put_part(&w, state);
    vm->allocating.trace = 0;
    Bool on_trace = vm->layout->jit_base && lt_vm_ref(vm, vm->g + vm->layout->jit_base) != 0;
    if (!on_trace) /* on a trace nothing is parsed, and the base is not up to date */
        put_parser(&w);
    if (on_trace && code && lt_trace_spot(vm, code, &spot)) {
        vm->allocating = spot;
        walk_trace(&w, &spot, size);
    } else if (state == MT_VM_EXIT && inside(&w, w.frame))
        walk_exit(&w);
    else
        walk_down(&w);
}
