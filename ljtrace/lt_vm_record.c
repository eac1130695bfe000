/* lt_vm_record.c - see lt_vm_record.h. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The word that is watched is stored to before the trace's number and its count of instructions are set for
 * the first bytecode of a trace. So the count of a step is taken when it begins, and if the next step finds
 * another trace, or a smaller count, then the step before it was the first of a new trace.
 */
#include "lt_vm_record.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

enum { MAX_TRACES = 65536, MAX_DEPTH = 12, MAX_STEPS = 20000, NODE_BYTES = 24, MAX_COLOCATED = 16 };

struct step {
    UInt first; /* intermediate instruction */
    UInt depth;
    Int slot[MAX_DEPTH]; /* of each frame's base, relative to the place where the trace starts */
    Addr proto[MAX_DEPTH], pc[MAX_DEPTH];
};

struct steps {
    UInt count, capacity;
    Addr base; /* of the first */
    struct step *step;
};

struct lt_recording {
    UInt trace; /* being recorded */
    Bool has_last;
    Addr last_base;
    struct step last;
    struct steps *of[MAX_TRACES];
};

static UInt s_begun; /* recordings */

UInt lt_recording_generation(void)
{
    return s_begun;
}

static void free_steps(struct steps *s)
{
    if (s && s->step)
        VG_(free)(s->step);
    if (s)
        VG_(free)(s);
}

void lt_recording_free(struct lt_vm *vm)
{
    for (UInt i = 0; vm->recording && i < MAX_TRACES; i++)
        free_steps(vm->recording->of[i]);
    if (vm->recording)
        VG_(free)(vm->recording);
    vm->recording = NULL;
}

/* The frames on the Lua stack now; the uppermost executes `pc`. */
static void take_frames(const struct lt_vm *vm, Addr pc, Addr base, struct step *s)
{
    Bool wide = vm->layout->gc64;
    Addr frame = base - 8;
    s->depth = 0;
    while (s->depth < MAX_DEPTH && lt_readable(frame - 16, 24)) {
        Addr function = wide ? *(Addr *)(frame - 8) & (((Addr)1 << 47) - 1) : *(UInt *)frame;
        Addr proto = lt_proto_of(vm, function);
        Long link = wide ? *(Long *)frame : (Long) * (UInt *)(frame + 4);
        if (!proto)
            return;
        s->slot[s->depth] = ((Long)frame + 8 - (Long)base) / 8;
        s->proto[s->depth] = proto;
        s->pc[s->depth++] = pc;
        if ((link & 3) == 3) { /* arguments that vary: the function's frame proper is below */
            frame -= (Addr)(link & ~(Long)7);
            link = wide ? *(Long *)frame : (Long) * (UInt *)(frame + 4);
        }
        if (link & 3)
            return;
        pc = (Addr)link - 4;
        frame -= 8 * (Addr)((wide ? 2 : 1) + (lt_vm_u32(pc) >> 8 & 0xff));
    }
}

static void add_step(struct lt_recording *r, const struct step *s, Addr base)
{
    struct steps *all = r->of[r->trace];
    if (all->count == MAX_STEPS)
        return;
    if (all->count == all->capacity) {
        all->capacity = 2 * all->capacity + 64;
        all->step = VG_(realloc)("ljtrace.steps", all->step, all->capacity * sizeof *all->step);
    }
    struct step *to = &all->step[all->count++];
    *to = *s;
    for (UInt i = 0; i < to->depth; i++)
        to->slot[i] += ((Long)base - (Long)all->base) / 8;
}

static void begin_trace(struct lt_recording *r, UInt trace)
{
    r->trace = trace;
    s_begun++;
    free_steps(r->of[trace]);
    r->of[trace] = VG_(calloc)("ljtrace.steps", 1, sizeof **r->of);
    r->of[trace]->base = r->last_base;
    r->last.first = 0;
    if (r->has_last)
        add_step(r, &r->last, r->last_base);
}

void lt_recording_step(struct lt_vm *vm)
{
    Addr J = vm->g + vm->layout->recorder, L = lt_vm_ref(vm, vm->g + vm->layout->cur_l);
    UInt trace = (UInt)lt_peek_number(J + vm->at->trace_number, 2);
    UInt first = lt_vm_u32(J + vm->at->trace_nins);
    Addr base = lt_vm_ref(vm, L + vm->at->thread_base), pc = lt_vm_ref(vm, J + vm->at->recorder_pc);
    if (!vm->recording)
        vm->recording = VG_(calloc)("ljtrace.recording", 1, sizeof *vm->recording);
    struct lt_recording *r = vm->recording;
    struct steps *now = r->of[r->trace];
    if (trace && (trace != r->trace || !now || (now->count && first < now->step[now->count - 1].first)))
        begin_trace(r, trace);
    r->last.first = first;
    r->last_base = base;
    take_frames(vm, pc, base, &r->last);
    r->has_last = True;
    if (trace)
        add_step(r, &r->last, base);
}

static const struct steps *steps_of(const struct lt_vm *vm, UInt trace)
{
    return vm->recording && trace < MAX_TRACES ? vm->recording->of[trace] : NULL;
}

UInt lt_recording_end(const struct lt_vm *vm, UInt trace)
{
    const struct steps *s = steps_of(vm, trace);
    return s && s->count ? s->step[s->count - 1].first : 0xffffffff;
}

Bool lt_recording_first(const struct lt_vm *vm, UInt trace, Addr pc, Int slot, UInt *first)
{
    const struct steps *s = steps_of(vm, trace);
    for (UInt i = 0; s && i < s->count; i++)
        if (s->step[i].depth && s->step[i].pc[0] == pc && (s->step[i].slot[0] == slot || !vm->layout->gc64)) {
            *first = s->step[i].first;
            return True;
        }
    return False;
}

Bool lt_recording_is_table(const struct lt_vm *vm, SizeT size)
{
    SizeT rest = size - vm->at->tab_bytes, nodes = size / NODE_BYTES;
    return (size >= vm->at->tab_bytes && rest <= MAX_COLOCATED * 8 && rest % 8 == 0) ||
           (size % NODE_BYTES == 0 && (nodes & (nodes - 1)) == 0);
}

/* How well does a bytecode fit the block? 0 = it makes none. */
static UInt fitness(const struct lt_vm *vm, const struct step *s, const struct step *next, SizeT size)
{
    const struct lua_layout *l = vm->layout;
    UInt op = lt_vm_u32(s->pc[0]) & 0xff;
    if (op == l->op_tnew || op == l->op_tdup)
        return lt_recording_is_table(vm, size) ? 5 : 1;
    if (op == l->op_cat || op == l->op_fnew)
        return 4;
    if (op == l->op_call || op == l->op_call - 1u) /* a call of a Lua function makes nothing by itself */
        return next && next->depth > s->depth ? 0 : 3;
    return op >= l->op_tsets - 1u && op <= l->op_tsets + 1u ? 2 : 0;
}

static Bool emits(const struct steps *all, UInt i, const struct lt_wanted *w)
{
    UInt from = all->step[i].first, to = i + 1 < all->count ? all->step[i + 1].first : 0xffffffff;
    return from < w->to && to > w->from && to > from && all->step[i].depth;
}

/* The `rank`-th of the bytecodes that fit best; *fits: how well. */
static const struct step *choose(const struct lt_vm *vm, const struct steps *all, const struct lt_wanted *w,
                                 UInt *fits)
{
    const struct step *chosen = NULL;
    UInt seen = 0;
    *fits = 0;
    for (UInt i = 0; all && i < all->count; i++) {
        const struct step *next = i + 1 < all->count ? &all->step[i + 1] : NULL;
        UInt f = emits(all, i, w) ? fitness(vm, &all->step[i], next, w->size) : 0;
        if (f == 0 || f < *fits)
            continue;
        seen = f > *fits ? 0 : seen + 1;
        *fits = f;
        if (seen <= w->rank)
            chosen = &all->step[i];
    }
    return chosen;
}

UInt lt_recording_places(const struct lt_vm *vm, const struct lt_wanted *w, struct lt_place *to, UInt max)
{
    UInt fits, n = 0;
    const struct step *best = choose(vm, steps_of(vm, w->trace), w, &fits);
    for (UInt i = 0; best && i < best->depth && n < max; i++) {
        Int slot = best->slot[i] + w->base_slot;
        to[n++] = (struct lt_place){.proto = best->proto[i], .pc = best->pc[i], .trace = w->trace};
        to[n - 1].inlined = slot > (vm->layout->gc64 ? 2 : 1);
        to[n - 1].approximate = i == 0 && fits == 1;
        if (!to[n - 1].inlined)
            break;
    }
    return n;
}
