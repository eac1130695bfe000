/* recorder.c - note the steps of LuaJIT's recorder, and find the step of an intermediate instruction.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The VM state is stored to before each step. For the first bytecode of a trace, this happens before the
 * trace's number and its count of instructions are set. So the count is read when a step begins. If the next
 * step has another trace number, or a smaller count, the step before it was the first of a new trace. If
 * there is no next step, the trace has only one bytecode, and is recognised when it is assembled.
 *
 * A recording that is aborted leaves its number to the next one, which may start elsewhere. So a recording also begins where
 * the number was not set before, and where the trace starts at another place.
 *
 * A Lua stack that grows while a trace is recorded is moved. So what is kept of a base is its height: its distance from
 * the start of its stack, in bytes.
 */
#include "ljtrace/luajit/jit/recorder.h"
#include "ljtrace/luajit/host.h"

enum {
    MAX_TRACES = 65536,
    MAX_DEPTH = 12,
    MAX_SITES = 8,
    MOST_FRAMES = 40, /* with those of built-in functions */
    MAX_STEPS = 20000,
    NODE_BYTES = 24,
    MAX_COLOCATED = 16,
    CERTAIN = 6
};

/* The recording of one bytecode. */
struct step {
    uint32_t first; /* its first intermediate instruction */
    uint32_t depth;
    /* The lowest slot of a base in the trace so far. The trace may have returned below the frame in which it
     * started. */
    int32_t lowest;
    /* The base of each frame, relative to the place where the trace starts. */
    int32_t slot[MAX_DEPTH];
    uint64_t proto[MAX_DEPTH], pc[MAX_DEPTH];
    uint32_t by_built_in; /* a bit for each frame that a built-in function such as pcall has called */
};

/* The steps of a trace. */
struct steps {
    uint32_t number; /* of the recording */
    uint32_t count, capacity;
    uint64_t height; /* of the first step's base */
    uint64_t start;  /* the bytecode at which the compiler says that the trace starts */
    struct step *step;
};

/* What is known of a state's traces. */
struct lt_recording {
    uint64_t site[MAX_SITES]; /* return addresses of the interpreter's calls of the compiler */
    uint32_t trace;           /* the one being recorded */
    uint32_t concatenation;   /* the opcode that ends a concatenation; 0 = not known */
    bool begins;              /* the last step had no trace number yet */
    bool has_last;
    uint64_t last_height; /* of the last step's base */
    struct step last;
    struct steps *of[MAX_TRACES];
};

static uint32_t s_begun; /* number of recordings so far */

static void free_steps(struct steps *s)
{
    if (s && s->step)
        host_free(s->step);
    if (s)
        host_free(s);
}

static void recording_free(struct lt_vm *vm)
{
    for (uint32_t i = 0; vm->recording && i < MAX_TRACES; i++)
        free_steps(vm->recording->of[i]);
    if (vm->recording)
        host_free(vm->recording);
    vm->recording = NULL;
}

static uint64_t proto_of(const struct lt_vm *vm, uint64_t frame)
{
    return lt_proto_of(vm, lt_frame_function(vm, frame, true));
}

/* The frame below `frame`, and in *pc the bytecode that its function executes, if it is a Lua function.
 * Returns 0 if the caller is C. If the frame is a metamethod's, *pc is the instruction that has called it;
 * the VM stores where it continues after that below the frame. */
static uint64_t caller_of(const struct lt_vm *vm, uint64_t frame, uint64_t *pc)
{
    const int64_t link = lt_frame_link(vm, frame, true);
    if ((link & 3) == LINK_C)
        return 0;
    *pc = ((link & 3) == LINK_LUA ? lt_link_pc(vm, link) : lt_continued_pc(vm, frame, true)) - 4;
    return lt_frame_below(vm, frame, link);
}

static bool is_frame(uint64_t frame)
{
    return frame && program_readable(frame - 16, 24);
}

/* Store the frames of Lua functions that are on the Lua stack. The innermost one executes `pc`. Built-in
 * functions, which may be recorded too, count as part of the call. */
static void take_frames(const struct lt_vm *vm, uint64_t pc, uint64_t base, struct step *s)
{
    uint64_t frame = base - 8;
    s->depth = s->by_built_in = 0;
    for (uint32_t i = 0; i < MOST_FRAMES && s->depth < MAX_DEPTH && is_frame(frame); i++) {
        uint64_t proto = proto_of(vm, frame);
        if (proto) {
            s->slot[s->depth] = ((int64_t)frame + 8 - (int64_t)base) / 8;
            s->proto[s->depth] = proto;
            s->pc[s->depth++] = pc;
        } else if (s->depth)
            s->by_built_in |= 1U << (s->depth - 1);
        if ((lt_frame_link(vm, frame, true) & 7) == LINK_VARG) /* a vararg function's own frame is below */
            frame -= (uint64_t)(lt_frame_link(vm, frame, true) & ~(int64_t)7);
        frame = caller_of(vm, frame, &pc);
    }
}

static void add_step(struct lt_recording *r, const struct step *s)
{
    struct steps *all = r->of[r->trace];
    if (all->count == MAX_STEPS)
        return;
    if (all->count == all->capacity) {
        all->capacity = 2 * all->capacity + 64;
        all->step = host_resize(all->step, all->capacity * sizeof *all->step);
    }
    struct step *to = &all->step[all->count++];
    *to = *s;
    const int32_t moved = ((int64_t)r->last_height - (int64_t)all->height) / 8;
    to->lowest = all->count > 1 && to[-1].lowest < moved ? to[-1].lowest : moved;
    for (uint32_t i = 0; i < to->depth; i++)
        to->slot[i] += moved;
}

static uint64_t compiler_of(const struct lt_vm *vm)
{
    return vm->g + vm->layout->recorder;
}

/* The bytecode at which the trace that is being recorded starts. */
static uint64_t start_of(const struct lt_vm *vm)
{
    return lt_vm_ref(vm, compiler_of(vm) + vm->at->trace_startpc);
}

static void begin_trace(const struct lt_vm *vm, struct lt_recording *r, uint32_t trace)
{
    r->trace = trace;
    s_begun++;
    free_steps(r->of[trace]);
    r->of[trace] = host_new(sizeof **r->of);
    r->of[trace]->number = s_begun;
    r->of[trace]->height = r->last_height;
    r->of[trace]->start = start_of(vm);
    r->last.first = 0;
    if (r->has_last)
        add_step(r, &r->last);
}

/* The return address of the function that the interpreter has called: it is just below the interpreter's
 * frame, whose address is the stack pointer there. */
static uint64_t site_of(uint64_t cframe)
{
    return program_number(cframe - sizeof(uint64_t), sizeof(uint64_t));
}

static void learn_site(struct lt_recording *r, uint64_t site)
{
    uint32_t i = 0;
    while (i < MAX_SITES && r->site[i] && r->site[i] != site)
        i++;
    if (i < MAX_SITES && host_is_lua_code(site))
        r->site[i] = site;
}

bool lt_recording_works(const struct lt_vm *vm, uint64_t cframe)
{
    uint64_t site = site_of(cframe);
    bool known = !vm->recording || !host_is_lua_code(site); /* a trace's exit has called it */
    for (uint32_t i = 0; !known && i < MAX_SITES; i++)
        known = vm->recording->site[i] == site;
    return known;
}

static struct lt_recording *recording_of(struct lt_vm *vm)
{
    if (!vm->recording)
        vm->recording = host_new(sizeof *vm->recording);
    return vm->recording;
}

/* The number of the trace that is being recorded; 0 = it is not set yet. */
static uint32_t trace_of(const struct lt_vm *vm)
{
    return (uint32_t)program_number(compiler_of(vm) + vm->at->trace_number, 2);
}

/* Does the step that begins belong to another recording than the one before it? first: its first intermediate
 * instruction. */
static bool is_new_trace(const struct lt_vm *vm, const struct lt_recording *r, uint32_t trace, uint32_t first)
{
    const struct steps *now = r->of[r->trace];
    if (!trace || trace != r->trace || !now || r->begins || now->start != start_of(vm))
        return trace != 0;
    return now->count && first < now->step[now->count - 1].first;
}

/* Take the step that begins, of this thread. */
static void take_last(const struct lt_vm *vm, struct lt_recording *r, uint32_t first, uint64_t L)
{
    const uint64_t base = lt_vm_ref(vm, L + vm->at->thread_base);
    r->last.first = first;
    r->last_height = base - lt_vm_ref(vm, L + vm->at->thread_stack);
    take_frames(vm, lt_vm_ref(vm, compiler_of(vm) + vm->at->recorder_pc), base, &r->last);
    r->has_last = true;
}

void lt_recording_step(struct lt_vm *vm)
{
    uint32_t trace = trace_of(vm), first = lt_vm_u32(compiler_of(vm) + vm->at->trace_nins);
    struct lt_recording *r = recording_of(vm);
    learn_site(r, site_of(lt_vm_cframe(vm)));
    if (is_new_trace(vm, r, trace, first))
        begin_trace(vm, r, trace);
    r->begins = !trace;
    take_last(vm, r, first, lt_vm_ref(vm, vm->g + vm->layout->cur_l));
    if (trace)
        add_step(r, &r->last);
}

void lt_recording_entered(struct lt_vm *vm)
{
    learn_site(recording_of(vm), site_of(lt_cframe_before(vm, lt_vm_cframe(vm))));
    lt_recording_step(vm);
}

void lt_recording_done(struct lt_vm *vm)
{
    struct lt_recording *r = vm->recording;
    uint32_t trace = trace_of(vm);
    if (r && trace && trace != r->trace && r->has_last)
        begin_trace(vm, r, trace);
}

static const struct steps *steps_of(const struct lt_vm *vm, uint32_t trace)
{
    return vm->recording && trace < MAX_TRACES ? vm->recording->of[trace] : NULL;
}

uint32_t lt_recording_version(const struct lt_vm *vm, uint32_t trace)
{
    const struct steps *s = steps_of(vm, trace);
    return s ? s->number << 1 | (vm->recording->concatenation != 0) : 0;
}

uint32_t lt_recording_end(const struct lt_vm *vm, uint32_t trace)
{
    const struct steps *s = steps_of(vm, trace);
    return s && s->count ? s->step[s->count - 1].first : 0xffffffff;
}

bool lt_recording_first(const struct lt_vm *vm, uint32_t trace, uint64_t pc, int32_t slot, uint32_t *first)
{
    const struct steps *s = steps_of(vm, trace);
    for (uint32_t i = 0; s && i < s->count; i++)
        if (s->step[i].depth && s->step[i].pc[0] == pc && (s->step[i].slot[0] == slot || !vm->layout->gc64)) {
            *first = s->step[i].first;
            return true;
        }
    return false;
}

bool lt_recording_is_table(const struct lt_vm *vm, size_t size)
{
    size_t rest = size - vm->at->tab_bytes, nodes = size / NODE_BYTES;
    return (size >= vm->at->tab_bytes && rest <= MAX_COLOCATED * 8 && rest % 8 == 0) ||
           (size % NODE_BYTES == 0 && (nodes & (nodes - 1)) == 0);
}

static bool is_call(const struct lua_layout *l, uint32_t op)
{
    return op == l->op_call || op == l->op_call - 1u;
}

/* How well does a bytecode fit a call that creates this? 0 = not at all. */
static uint32_t fitness_known(const struct lua_layout *l, uint32_t op, enum lt_makes makes)
{
    switch (makes) {
    case LT_MAKES_TABLES:
        return op == l->op_tnew || op == l->op_tdup ? 5 : 0;
    case LT_MAKES_ROOM:
        return op >= l->op_tsets - 1u && op <= l->op_tsets + 1u ? 5 : 0;
    case LT_MAKES_STRINGS:
        return op == l->op_cat ? 5 : 0;
    default:
        return op == l->op_fnew ? 5 : 0;
    }
}

/* The same if only the block's size is known. */
static uint32_t fitness_by_size(const struct lt_vm *vm, uint32_t op, size_t size)
{
    const struct lua_layout *l = vm->layout;
    if (op == l->op_tnew || op == l->op_tdup)
        return lt_recording_is_table(vm, size) ? 5 : 1;
    if (op == l->op_cat || op == l->op_fnew)
        return 4;
    return op >= l->op_tsets - 1u && op <= l->op_tsets + 1u ? 2 : 0;
}

/* How well does a step fit? */
static uint32_t fitness(const struct lt_vm *vm, const struct step *s, const struct step *next,
                        const struct lt_wanted *w)
{
    uint32_t op = lt_vm_u32(s->pc[0]) & 0xff;
    if (is_call(vm->layout, op)) /* calling a Lua function creates nothing by itself */
        return next && next->depth > s->depth ? 0 : 3;
    return w->makes ? fitness_known(vm->layout, op, w->makes) : fitness_by_size(vm, op, w->size);
}

static uint32_t end_of(const struct steps *all, uint32_t i)
{
    return i + 1 < all->count ? all->step[i + 1].first : 0xffffffff;
}

static bool emits(const struct steps *all, uint32_t i, const struct lt_wanted *w)
{
    uint32_t from = all->step[i].first, to = end_of(all, i);
    return from < w->to && to > w->from && to > from && all->step[i].depth;
}

static void learn_concatenation(const struct lt_vm *vm, const struct steps *all, const struct lt_ir *ir)
{
    uint32_t *opcode = &vm->recording->concatenation;
    for (uint32_t i = 0; i < all->count && *opcode == 0; i++)
        if (all->step[i].depth && (lt_vm_u32(all->step[i].pc[0]) & 0xff) == vm->layout->op_cat)
            *opcode = lt_ir_concatenation(ir, all->step[i].first, end_of(all, i));
}

/* How many strings a step creates in the range searched; 0 also if it is not known. The last step ends the
 * trace and creates nothing. */
static uint32_t strings_of(const struct lt_vm *vm, const struct steps *all, uint32_t i,
                           const struct lt_wanted *w)
{
    uint32_t from = all->step[i].first, to = end_of(all, i), concatenation = vm->recording->concatenation;
    if (w->makes != LT_MAKES_STRINGS || !concatenation || to == 0xffffffff)
        return 0;
    return lt_ir_strings(&w->ir, from > w->from ? from : w->from, to < w->to ? to : w->to, concatenation);
}

/* How well does a step fit? *calls: how many such calls it contains. */
static uint32_t fitness_of_step(const struct lt_vm *vm, const struct steps *all, uint32_t i,
                                const struct lt_wanted *w, uint32_t *calls)
{
    *calls = 1;
    if (!emits(all, i, w))
        return 0;
    uint32_t strings = strings_of(vm, all, i, w);
    if (strings) {
        *calls = strings;
        return CERTAIN;
    }
    return fitness(vm, &all->step[i], i + 1 < all->count ? &all->step[i + 1] : NULL, w);
}

/* The `rank`-th of the steps that fit best. *fits: how well. */
static const struct step *choose(const struct lt_vm *vm, const struct steps *all, const struct lt_wanted *w,
                                 uint32_t *fits)
{
    const struct step *chosen = NULL;
    uint32_t seen = 0, calls;
    *fits = 0;
    if (all)
        learn_concatenation(vm, all, &w->ir);
    for (uint32_t i = 0; all && i < all->count; i++) {
        uint32_t f = fitness_of_step(vm, all, i, w, &calls);
        if (f == 0 || f < *fits)
            continue;
        seen = f > *fits ? 0 : seen;
        if (seen == 0 || seen <= w->rank)
            chosen = &all->step[i];
        seen += calls;
        *fits = f;
    }
    return chosen;
}

/* The places of a step's frames, up to the one at the trace's base. The base moves down with each return
 * below it. If a built-in function is there, which has replaced a Lua function by a tail call, the place is the caller's. */
static uint32_t places_of(const struct lt_vm *vm, const struct step *s, uint32_t trace, int32_t base_slot,
                          struct lt_place *to, uint32_t max)
{
    uint32_t n = 0;
    int32_t start = (vm->layout->gc64 ? 2 : 1) - base_slot, base = s && s->lowest < start ? s->lowest : start;
    while (s && n < s->depth && n < max) {
        to[n] = (struct lt_place){.proto = s->proto[n], .pc = s->pc[n], .trace = trace};
        to[n].by_built_in = s->by_built_in >> n & 1;
        to[n].inlined = s->slot[n] > base;
        to[n].is_below = s->slot[n] < base;
        if (!to[n++].inlined)
            break;
    }
    return n;
}

uint32_t lt_recording_places(const struct lt_vm *vm, const struct lt_wanted *w, struct lt_place *to,
                             uint32_t max)
{
    uint32_t fits, n;
    const struct step *best = choose(vm, steps_of(vm, w->trace), w, &fits);
    n = places_of(vm, best, w->trace, w->base_slot, to, max);
    if (n)
        to[0].approximate = fits == 1;
    return n;
}

uint32_t lt_recording_of(const struct lt_vm *vm, uint32_t trace, uint32_t number, int32_t base_slot,
                         struct lt_place *to, uint32_t max)
{
    const struct steps *all = steps_of(vm, trace);
    uint32_t low = 0,
             high = all ? all->count : 0; /* search the last step that begins at or before `number` */
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (all->step[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return high ? places_of(vm, &all->step[low], trace, base_slot, to, max) : 0;
}

void lt_recording_init(void)
{
    lt_vm_hook(&(struct lt_vm_hooks){.ends = recording_free});
}
