/* walk.c - walk over the frames of a Lua stack, from the innermost to the outermost, and name them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * frames.h says how the stack is made. A Lua frame belongs to the innermost cframe around it, so the Lua frames
 * replace the interpreter's frame on the C stack.
 *
 * Begin at lt_walk_lua, at the end.
 */
#include "ljtrace/luajit/stack/walk.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/luajit/jit/trace.h"
#include "ljtrace/luajit/stack/coroutine.h"
#include "ljtrace/luajit/stack/notes.h"
#include "ljtrace/luajit/stack/parser.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

enum { SEEN_SLOTS = 2048, MOST_STEPS = 100000 };

/* A cache of frames: the same function at the same place has the same key, until a prototype is freed. */
struct seen {
    const struct lt_vm *vm;
    uint64_t function, pc; /* pc: after the instruction */
    uint32_t generation;
    uint64_t proto, key;
};
TABLE(struct seen, s_seen, SEEN_SLOTS);

/* A walk over a Lua stack. */
struct walk {
    const struct lt_vm *vm;
    struct lt_frames at;
    uint32_t steps;
    const struct lt_stack *host;
    struct lua_frames *out;
    /* Functions that are named by their caller, which is found next: a Lua function, and a fast function
     * above it. */
    uint64_t fast; /* 0 = none */
    struct lt_place pending;
    bool has_pending;
    uint64_t fast_cframe, pending_cframe;
    struct seen *fast_seen, *pending_seen; /* where to cache their keys; NULL = nowhere */
};

static struct seen *seen_slot(uint64_t function, uint64_t pc)
{
    return &s_seen[lt_hash_slot(function ^ pc * 31, 11)];
}

static bool is_seen(const struct seen *s, const struct lt_vm *vm, uint64_t function, uint64_t pc)
{
    return s->function == function && s->pc == pc && s->vm == vm && s->key &&
           s->generation == lt_places_generation();
}

/* Cache a frame's key. */
static uint64_t keep(struct seen *s, uint64_t key)
{
    if (s)
        s->key = key;
    return key;
}

/* The stack's slots were checked to be readable. */
static const struct lt_reading s_reading = {true, lt_notes_word};

static int64_t link_of(const struct walk *w, uint64_t frame)
{
    return lt_frame_link(w->vm, frame, true);
}

static uint64_t function_of(const struct walk *w, uint64_t frame)
{
    return lt_frame_function(w->vm, frame, true);
}

/* Note the slots that identify a frame. If the frame above returns to Lua, its link also identifies the
 * function. */
static void note_function(const struct walk *w)
{
    bool wide = w->vm->layout->gc64, known = wide && w->at.next && (link_of(w, w->at.next) & 3) == LINK_LUA;
    if (!known)
        lt_notes_function(w->at.frame - (wide ? 8 : 0));
}

static void note_link(const struct walk *w)
{
    if (w->vm->layout->gc64)
        lt_notes_word(w->at.frame);
}

static void add(struct walk *w, uint64_t key, uint64_t cframe)
{
    struct lua_frames *out = w->out;
    if (!key || out->count == LT_MOST_FRAMES)
        return;
    out->key[out->count] = key;
    out->cframe[out->count++] = cframe;
}

static void add_lined(struct walk *w, uint64_t key, uint64_t cframe)
{
    add(w, key, cframe);
    if (!w->out->lined && key)
        w->out->lined = w->out->count;
}

/* The caller was found, or there is none: name the functions that are waiting for it. */
static void settle(struct walk *w, uint64_t proto, uint64_t pc)
{
    if (w->fast)
        add(w, keep(w->fast_seen, lt_name_fast(w->vm, w->fast, proto, pc)), w->fast_cframe);
    w->fast = 0;
    if (w->has_pending) {
        w->pending.caller_proto = proto;
        w->pending.caller_pc = pc;
        add_lined(w, keep(w->pending_seen, lt_name_place(w->vm, &w->pending)), w->pending_cframe);
    }
    w->has_pending = false;
    lt_notes_named(w->out->count);
}

static void visit_place(struct walk *w, const struct lt_place *place)
{
    const bool names = !w->has_pending || !w->pending.by_built_in;
    settle(w, names ? place->proto : 0, names ? place->pc : 0);
    w->pending = *place;
    w->has_pending = true;
    w->pending_cframe = w->at.cframe;
    w->pending_seen = NULL;
}

/* A function that is waiting for its name may use the same cache slot, so it is named first. */
static void visit_new_frame(struct walk *w, uint64_t function, uint64_t pc, struct seen *seen)
{
    uint64_t proto = lt_proto_of(w->vm, function);
    const struct seen made = {w->vm, function, pc, lt_places_generation(), proto, 0};
    if (proto) {
        struct lt_place place = {.proto = proto, .pc = pc ? pc - 4 : 0};
        if (!pc || !lt_line_at(w->vm, proto, place.pc)) {
            place.pc = proto + w->vm->at->proto_code;
            place.approximate = true;
        }
        visit_place(w, &place);
        w->pending_seen = seen;
        *seen = made;
    } else if (lt_vm_gct(w->vm, function) == GCT_FUNC) {
        settle(w, 0, 0);
        if (program_number(function + w->vm->at->ffid, 1) > 1) {
            w->fast = function, w->fast_cframe = w->at.cframe;
            w->fast_seen = lt_fast_is_made(w->vm, function) ? NULL : seen;
            *seen = made;
        }
    }
}

static void visit_frame(struct walk *w)
{
    uint64_t function = function_of(w, w->at.frame), pc = lt_frames_return_pc(&w->at, s_reading);
    struct seen *seen = seen_slot(function, pc);
    if (!is_seen(seen, w->vm, function, pc)) {
        visit_new_frame(w, function, pc, seen);
        return;
    }
    settle(w, seen->proto, seen->proto && pc ? pc - 4 : 0);
    if (seen->proto)
        add_lined(w, seen->key, w->at.cframe);
    else
        add(w, seen->key, w->at.cframe);
}

/* Step to the frame below. Returns false at the bottom. */
static bool step(struct walk *w)
{
    w->steps++;
    note_function(w);
    lt_notes_step(w->at.frame, w->at.cframe);
    note_link(w);
    return lt_frames_step(&w->at, s_reading);
}

/* Are there as many frames as wanted, and one with a line? */
static bool is_enough(const struct lua_frames *out)
{
    return out->count >= out->wanted && (out->lined || out->count == LT_MOST_FRAMES);
}

static bool use_thread(struct walk *w, uint64_t L)
{
    lt_frames_begin(&w->at, L);
    const uint64_t stack = lt_vm_ref(w->vm, L + w->vm->at->thread_stack);
    return program_readable(stack, w->at.top - stack);
}

/* Is it the state's main thread, which nothing has resumed? The VM keeps it in front of the global state in one block,
 * so no other thread is that near. */
static bool is_main_thread(const struct walk *w)
{
    const uint32_t least =
        w->vm->at->thread_size + sizeof(uint32_t); /* its size is the last field of a thread */
    return w->at.L < w->vm->g && w->vm->g - w->at.L < 2 * least;
}

/* At the bottom of a coroutine, continue with the thread that has resumed it. Returns false if there is none,
 * or if it is not known. */
static bool go_on_with_resumer(struct walk *w)
{
    if (!w->at.outermost || w->at.cframe || is_main_thread(w))
        return false;
    struct lt_resumer r = lt_find_resumer(w->vm, w->host, w->at.outermost);
    if (!r.L || r.L == w->at.L || !use_thread(w, r.L))
        return false;
    w->at.cframe = r.cframe;
    lt_notes_word(r.word & ~(uint64_t)7);
    lt_notes_thread(r.L);
    return lt_frames_inside(&w->at, w->at.frame);
}

/* Step to the frame below, in whichever thread. Returns false if there is none. */
static bool go_on(struct walk *w)
{
    return step(w) || go_on_with_resumer(w);
}

/* Visit the current frame and all below. */
static void walk_down(struct walk *w)
{
    bool more = lt_frames_inside(&w->at, w->at.frame), is_pseudo = false;
    for (uint32_t i = 0; more && i < MOST_STEPS; i++) {
        if (!is_pseudo)
            visit_frame(w);
        if (is_enough(w->out)) {
            lt_notes_cut(w->steps);
            break;
        }
        is_pseudo = (link_of(w, w->at.frame) & 7) == LINK_VARG; /* the same function's own frame is below */
        more = go_on(w);
    }
    settle(w, 0, 0);
}

static bool begin(struct walk *w, struct lt_vm *vm, const struct lt_stack *host, struct lua_frames *out)
{
    uint64_t L = lt_vm_ref(vm, vm->g + vm->layout->cur_l);
    if (!L || lt_vm_gct(vm, L) != GCT_THREAD)
        return false;
    *w = (struct walk){.vm = vm, .at = {.vm = vm}, .host = host, .out = out};
    w->at.cframe = program_number(L + vm->at->thread_cframe, 8) & ~(uint64_t)3;
    return use_thread(w, L);
}

/* Of the functions around the place of a trace, only the inner ones may be known, where the compiler was not
 * observed. Then the last one is another function than that at the trace's base: it must not be named by what
 * calls that. The base's own place in its function is not known, but for its beginning. */
static void visit_gap(struct walk *w, const struct lt_place *last)
{
    const uint64_t proto =
        lt_frames_inside(&w->at, w->at.frame) ? lt_proto_of(w->vm, function_of(w, w->at.frame)) : 0;
    if (!last->inlined && (!last->approximate || last->proto == proto))
        return;
    settle(w, 0, 0);
    struct lt_place base = {.proto = proto, .trace = last->trace, .approximate = true};
    base.pc = proto + w->vm->at->proto_code;
    if (proto)
        visit_place(w, &base);
}

/* A trace is running: visit the functions inlined in it, then the frames below the trace's base. */
static void walk_trace(struct walk *w, const struct lt_spot *spot, size_t size)
{
    struct lt_place place[32];
    uint32_t n = lt_trace_allocation(w->vm, spot, size, place, 32), seen = 0;
    w->at.frame = lt_vm_ref(w->vm, w->vm->g + w->vm->layout->jit_base) - 8;
    while (seen < n && !place[seen].is_below)
        visit_place(w, &place[seen++]);
    if (seen && seen == n && place[n - 1].of_snapshot)
        visit_gap(w, &place[n - 1]);
    if (n && lt_frames_inside(&w->at, w->at.frame)) {
        bool pseudo = (link_of(w, w->at.frame) & 7) == LINK_VARG;
        if (go_on(w) && (!pseudo || go_on(w)))
            walk_down(w);
    }
    settle(w, 0, 0);
}

/* An exit from a trace restores what the trace has left out, so the frame may not be on the stack yet. */
static void walk_exit(struct walk *w)
{
    uint64_t pc = lt_frames_cframe_pc(&w->at, s_reading), proto = pc ? lt_proto_holding(w->vm, pc - 4) : 0;
    if (proto && lt_proto_of(w->vm, function_of(w, w->at.frame)) != proto) {
        struct lt_place place = {.proto = proto, .pc = pc - 4};
        visit_place(w, &place);
    }
    walk_down(w);
}

/* Is the compiler at work? While a trace is recorded, the interpreter still executes one instruction after
 * another. */
static bool is_compiling(const struct walk *w, uint32_t state)
{
    if (state != MT_VM_RECORD && state != MT_VM_OPT && state != MT_VM_ASM)
        return false;
    lt_notes_give_up();
    return state != MT_VM_RECORD || lt_recording_works(w->vm, w->at.cframe);
}

static void put_part(struct walk *w, uint32_t state)
{
    if (state == MT_VM_GC)
        add(w, lt_name_part(LT_PART_GC), w->at.cframe);
    else if (is_compiling(w, state))
        add(w, lt_name_part(LT_PART_JIT), w->at.cframe);
    else if (state == MT_VM_EXIT)
        add(w, lt_name_part(LT_PART_EXIT), w->at.cframe);
}

/* The compiler is called in the middle of an instruction, before the program counter is saved; but the
 * compiler has a copy. */
static void use_recorder(struct walk *w)
{
    if (!w->vm->layout->recorder || w->at.pc || !lt_frames_inside(&w->at, w->at.frame))
        return;
    uint64_t pc = lt_vm_ref(w->vm, w->vm->g + w->vm->layout->recorder + w->vm->at->recorder_pc);
    uint64_t proto = lt_proto_of(w->vm, function_of(w, w->at.frame));
    if (proto && lt_line_at(w->vm, proto, pc))
        w->at.pc = pc + 4;
}

/* The parser is called by a C function through an entry into the VM of its own. The caller of that C function
 * belongs to the entry before. */
static void put_parser(struct walk *w)
{
    if (!lt_frames_inside(&w->at, w->at.frame))
        return;
    note_function(w);
    note_link(w);
    if (lt_proto_of(w->vm, function_of(w, w->at.frame)))
        return;
    uint64_t key = lt_parser_key(w->vm, w->at.L, w->at.cframe);
    add_lined(w, key, w->at.cframe);
    if (key)
        w->at.cframe = lt_frames_cframe_before(&w->at, s_reading);
    if (key)
        lt_notes_give_up(); /* the line changes although the stacks do not */
}

void lt_walk_lua(struct lt_vm *vm, const struct lt_stack *host, const struct lt_registers *live,
                 uint64_t code, size_t size, struct lua_frames *out)
{
    struct walk w;
    struct lt_spot spot;
    uint32_t state = lt_machine_state(vm);
    if (!begin(&w, vm, host, out))
        return;
    if (live)
        lt_frames_use(&w.at, live);
    if (is_compiling(&w, state))
        use_recorder(&w);
    if (state == MT_VM_EXIT)
        lt_notes_give_up();
    put_part(&w, state);
    vm->allocating.trace = 0;
    bool on_trace = vm->layout->jit_base && lt_vm_ref(vm, vm->g + vm->layout->jit_base) != 0;
    if (!on_trace) /* on a trace nothing is parsed, and the base is not up to date */
        put_parser(&w);
    if (on_trace && code && lt_trace_spot(vm, code, &spot)) {
        vm->allocating = spot;
        walk_trace(&w, &spot, size);
    } else if (state == MT_VM_EXIT && lt_frames_inside(&w.at, w.at.frame))
        walk_exit(&w);
    else
        walk_down(&w);
}
