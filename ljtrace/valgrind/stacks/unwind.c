/* unwind.c - unwind C stacks and name their frames. (see unwind.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Unwinding costs as much as all other work for an allocation together, and most allocations have one of few
 * stacks. So recent stacks are cached. An entry is found by code address, stack pointer and some return
 * addresses, and is valid if all return addresses that were found then are still in their places on the
 * stack.
 *
 * Start reading at `take`, which is the cache's look-up, and which calls the unwinder if that fails.
 */
#include "ljtrace/valgrind/stacks/unwind.h"
#include "ljtrace/frames/eh_frame.h"
#include "ljtrace/frames/frame_pointer.h"
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/base/hash.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/stacks/modules.h"
#include "memtrace/memtrace.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"

/* -- the caller of a frame -- */

/* Valgrind's own unwinder goes on where it has no call frame information: by rbp, whatever that contains, and by the word
 * at the stack pointer. Here each step is by call frame information or is checked (frames/frame_pointer.h), and a stack
 * that ends too early says so.
 *
 * Valgrind does not understand all call frame information. What it has none for is looked up in the object itself,
 * which also says which frames are outermost. */

/* Memory that contains a stack, all of it readable. */
struct lt_stack_memory {
    Addr from, to;
};

enum lt_step {
    LT_STEP_KNOWN,     /* by call frame information */
    LT_STEP_PLAUSIBLE, /* by the frame pointer */
    LT_STEP_OUTERMOST, /* there is no caller */
    LT_STEP_LOST       /* there is one, which cannot be found */
};

enum { RED_ZONE = 128 };

/* The rules of code, as its object has them. */
static Bool find_rules(Addr ip, struct eh_rules *rules)
{
    struct lt_mapped_object object;
    struct eh_sections sections;
    if (!lt_mapped_object_of(ip, &object))
        return False;
    const struct eh_image image = {(const uint8_t *)object.begin, (const uint8_t *)object.end, object.bias};
    const uint8_t *header = eh_header_of(&image);
    return header && eh_sections_at(&image, header, &sections) && eh_frame_rules(&sections, ip, rules);
}

static Bool read_word(Addr at, Addr end, Addr *to)
{
    return at + sizeof *to <= end && program_read(at, to, sizeof *to);
}

/* Step by rules that need rip, rsp and rbp only. */
static enum lt_step follow(const struct eh_rules *rules, struct host_frame *f, Addr end)
{
    const struct eh_rule *cfa = &rules->cfa, *ip = &rules->registers[rules->return_address],
                         *bp = &rules->registers[EH_RBP];
    Addr top = cfa->reg == EH_RSP ? f->sp : f->bp, back;
    if (ip->how == EH_UNDEFINED)
        return LT_STEP_OUTERMOST;
    if (cfa->how != EH_IN_REGISTER || (cfa->reg != EH_RSP && cfa->reg != EH_RBP) || ip->how != EH_SAVED ||
        rules->is_signal_frame)
        return LT_STEP_LOST;
    top += (Addr)(Word)cfa->offset;
    if (top <= f->sp || !read_word(top + (Addr)(Word)ip->offset, end, &back))
        return LT_STEP_LOST;
    if (bp->how == EH_SAVED && !read_word(top + (Addr)(Word)bp->offset, end, &f->bp))
        return LT_STEP_LOST;
    if (back <= 1)
        return LT_STEP_OUTERMOST;
    *f = (struct host_frame){back - 1, top, f->bp};
    return LT_STEP_KNOWN;
}

static bool read_for_step(void *end, uint64_t address, void *to, size_t n)
{
    (void)end;
    return program_read(address, to, n);
}

/* The dynamic linker's first instructions, which start the program, have no call frame information. */
static Bool is_linkers(Addr ip)
{
    const DebugInfo *object = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), ip);
    const HChar *name = object ? VG_(DebugInfo_get_soname)(object) : NULL;
    return name && VG_(strncmp)(name, "ld-linux", 8) == 0;
}

/* Is a return address the beginning of a function? It was not left by a call, but put there for a coroutine, which begins
 * with its caller. */
static Bool is_put_there(Addr ip)
{
    struct eh_rules rules;
    return find_rules(ip + 1, &rules) && !frame_pointer_after_call(ip + 1, read_for_step, NULL);
}

static enum lt_step step_by_frame_pointer(struct host_frame *f, Addr end)
{
    struct frame_pointer caller = {f->ip, f->sp, f->bp};
    if (is_linkers(f->ip) || is_put_there(f->ip))
        return LT_STEP_OUTERMOST;
    if (f->bp + 2 * sizeof(Addr) > end || !frame_pointer_step(&caller, read_for_step, NULL))
        return LT_STEP_LOST;
    *f = (struct host_frame){caller.ip, caller.sp, caller.bp};
    return LT_STEP_PLAUSIBLE;
}

static enum lt_step step_to_caller(struct host_frame *f, const struct lt_stack_memory *memory)
{
    struct eh_rules rules;
    struct core_registers r = {f->ip, f->sp, f->bp};
    if (VG_(use_CF_info)(&r, f->sp - RED_ZONE, memory->to - sizeof(Addr))) {
        if (r.ip <= 1)
            return LT_STEP_OUTERMOST;
        if (r.sp <= f->sp && r.sp >= memory->from)
            return LT_STEP_LOST;
        *f = (struct host_frame){r.ip - 1, r.sp, r.bp};
        return LT_STEP_KNOWN;
    }
    return find_rules(f->ip, &rules) ? follow(&rules, f, memory->to) : step_by_frame_pointer(f, memory->to);
}

/* -- stacks -- */

enum { NAMED_SLOTS = 1 << 15, NAME_LIMIT = 4000, CACHE_SETS = 1 << 9, CACHE_WAYS = 4, CACHE_DEPTH = 201 };
enum { WRITTEN_OBJECTS = 256, HINTS = 2, FARTHEST_HINT = 1 << 16 };

/* What an address on the stack points to. */
enum place { NOT_CODE, RUN_TIME_CODE, OBJECT };

/* Direct-mapped cache: the code address last named in each slot. */
static struct named {
    Addr ip;
    enum place place;
} s_named[NAMED_SLOTS];

/* A cached stack. */
struct entry {
    Addr sp;
    UInt depth, limit; /* limit: how many frames were requested */
    UInt certain;      /* see struct found */
    Bool lost;
    Addr ips[CACHE_DEPTH];
    Addr sps[CACHE_DEPTH];
};

static struct entry s_cache[CACHE_SETS][CACHE_WAYS];
static UInt s_victim; /* the way to evict next */
static UInt s_generation;
static bool (*s_name_run_time_code)(uint64_t ip); /* NULL = it has no names */

/* The frames found by the unwinder, innermost first. */
struct found {
    Addr *ips, *sps;
    UInt depth;
    UInt certain; /* so many were found by call frame information; the others are plausible */
    Bool lost;    /* the last one has a caller that cannot be found */
};

static UInt slot_of(Addr ip)
{
    return lt_hash_slot(ip, 15);
}

void lt_forget_frames(void)
{
    VG_(memset)(s_named, 0, sizeof s_named);
    for (UInt i = 0; i < CACHE_SETS; i++)
        for (UInt k = 0; k < CACHE_WAYS; k++)
            s_cache[i][k].depth = 0;
    s_generation++;
}

UInt host_code_generation(void)
{
    return s_generation;
}

static struct raw_text limited(const HChar *s)
{
    SizeT n = VG_(strlen)(s);
    return host_text_of(s, n < NAME_LIMIT ? (UInt)n : NAME_LIMIT);
}

/* in_file: the address for which the collector looks up the line in the object's file; 0 = there is no
 * line. */
static void put_frame(Addr ip, Addr in_file, const HChar *function, const HChar *object)
{
    HOST_PUT(frame, .ip = ip, .function = limited(function), .object = limited(object), .in_file = in_file);
}

void lt_run_time_code_named_by(bool (*f)(uint64_t ip))
{
    s_name_run_time_code = f;
}

static Bool name_run_time_code(Addr ip)
{
    return s_name_run_time_code && s_name_run_time_code(ip);
}

static Bool is_executable(Addr ip)
{
    const NSegment *segment = VG_(am_find_nsegment)(ip);
    return segment && segment->hasX;
}

/* The address of the code in the object's file, for the collector. */
static Addr address_in_file(const DebugInfo *object, Addr ip)
{
    return ip - VG_(DebugInfo_get_text_bias)(object);
}

/* The collector needs some time to open a file with debug information, so let it begin as soon as a frame of
 * that object occurs. This is done once for each object, because in a forked child a slab that is handed over
 * early also means that the child is there to stay. */
static void write_object(const DebugInfo *object)
{
    static const DebugInfo *s_written[WRITTEN_OBJECTS];
    static UInt s_count;
    UInt i = 0;
    while (i < s_count && s_written[i] != object)
        i++;
    if (i < s_count || s_count == WRITTEN_OBJECTS)
        return;
    s_written[s_count++] = object;
    lt_ring_flush();
}

static enum place describe_frame(Addr ip)
{
    static HChar function[NAME_LIMIT], object[NAME_LIMIT];
    DiEpoch epoch = VG_(current_DiEpoch)();
    const HChar *name;
    function[0] = object[0] = 0;
    if (VG_(get_fnname)(epoch, ip, &name))
        VG_(snprintf)(function, NAME_LIMIT, "%s", name);
    if (VG_(get_objname)(epoch, ip, &name))
        VG_(snprintf)(object, NAME_LIMIT, "%s", name);
    if (!object[0] && !is_executable(ip))
        return NOT_CODE;
    if (!object[0] && name_run_time_code(ip))
        return RUN_TIME_CODE;
    const DebugInfo *info = VG_(find_DebugInfo)(epoch, ip);
    const Addr in_file = info ? address_in_file(info, ip) : object[0] ? lt_module_address(ip, object) : 0;
    put_frame(ip, in_file, function, object);
    if (info)
        write_object(info);
    return object[0] ? OBJECT : RUN_TIME_CODE;
}

static enum place name(Addr ip)
{
    struct named *named = &s_named[slot_of(ip)];
    if (named->ip != ip) {
        named->ip = ip;
        named->place = describe_frame(ip);
    }
    return named->place;
}

Bool lt_is_run_time_code(Addr ip)
{
    return name(ip) == RUN_TIME_CODE;
}

/* Name a code address. In code generated at run time this is repeated, because the code of one trace may have
 * replaced that of another. */
void lt_name_frame(Addr ip)
{
    const struct named *named = &s_named[slot_of(ip)];
    Bool was_named = named->ip == ip;
    if (name(ip) == RUN_TIME_CODE && was_named)
        name_run_time_code(ip);
}

static Addr return_address(Addr sp_of_caller)
{
    return *(Addr *)(sp_of_caller - sizeof(Addr));
}

/* The range of the thread's stack. Only addresses in it are sure to be readable. */
struct bounds {
    Addr from, to;
};

static struct bounds bounds_of(ThreadId tid)
{
    Addr top = VG_(thread_get_stack_max)(tid);
    return (struct bounds){top - VG_(thread_get_stack_size)(tid), top};
}

static Bool on_stack(const struct bounds *b, Addr from, Addr to)
{
    return from <= to && to <= b->to && from >= b->from;
}

static Bool is_valid(const struct entry *m, const struct bounds *b, Addr ip, Addr sp)
{
    if (m->sp != sp || m->depth < 2 || m->ips[0] != ip || !on_stack(b, sp, m->sps[m->depth - 1]))
        return False;
    for (UInt i = 1; i < m->depth; i++)
        if (return_address(m->sps[i]) != m->ips[i] + 1)
            return False;
    return True;
}

static void stack_keep(struct entry *m, const struct bounds *b, const struct found *f, Addr sp, UInt limit)
{
    m->depth = 0;
    m->limit = limit;
    m->certain = f->certain;
    m->lost = f->lost;
    if (f->depth > CACHE_DEPTH)
        return;
    for (UInt i = 0; i < f->depth; i++) {
        m->ips[i] = f->ips[i];
        m->sps[i] = f->sps[i];
    }
    m->sp = sp;
    m->depth = f->depth;
    if (!is_valid(m, b, m->ips[0], sp))
        m->depth = 0; /* the return addresses are not where is_valid looks: the entry could never be used */
}

/* Find a valid entry that has at least `limit` frames or the whole stack; NULL = there is none. */
static const struct entry *stack_recall(struct entry *set, const struct bounds *b, Addr ip, Addr sp,
                                        UInt limit)
{
    for (UInt k = 0; k < CACHE_WAYS; k++)
        if (is_valid(&set[k], b, ip, sp) && (set[k].depth < set[k].limit || set[k].limit >= limit))
            return &set[k];
    return NULL;
}

/* Many stacks start with the same two frames, at the place that allocates. To distinguish them, the key of
 * the cache includes the next return addresses. A hint says how far above the stack pointer these were the
 * last time. */
static struct hint {
    UInt above[HINTS];
} s_hints[CACHE_SETS];

static UInt hash_of(Addr key)
{
    return lt_hash_slot(key, 9);
}

static struct entry *set_of(const struct bounds *b, const struct host_frame *s, const struct hint *h)
{
    Addr key = s->sp ^ s->ip * 31 ^ *(Addr *)s->sp * 127;
    for (UInt i = 0; i < HINTS; i++)
        if (h->above[i] && on_stack(b, s->sp, s->sp + h->above[i]))
            key = key * 131 ^ return_address(s->sp + h->above[i]);
    return s_cache[hash_of(key)];
}

static void keep_hint(struct hint *h, const struct found *f, Addr sp)
{
    for (UInt i = 0; i < HINTS; i++) {
        Addr above = i + 2 < f->depth ? f->sps[i + 2] - sp : 0;
        h->above[i] = above < FARTHEST_HINT ? (UInt)above : 0;
    }
}

static Addr bp_of(ThreadId tid)
{
    Addr bp;
    VG_(get_shadow_regs_area)(tid, (UChar *)&bp, 0, offsetof(VexGuestAMD64State, guest_RBP), sizeof bp);
    return bp;
}

/* The memory of a stack: the thread's or, if that is another one, such as a coroutine's, the mapping that contains it. */
static struct lt_stack_memory memory_of(const struct bounds *b, Addr sp)
{
    const NSegment *segment = on_stack(b, sp, sp) ? NULL : VG_(am_find_nsegment)(sp);
    if (segment && segment->hasR)
        return (struct lt_stack_memory){segment->start, segment->end + 1};
    return (struct lt_stack_memory){sp, sp <= b->to ? b->to + 1 : sp};
}

/* Walk the stack from a frame on. */
static void stack_walk(struct host_frame frame, const struct bounds *b, struct found *f, UInt limit)
{
    struct lt_stack_memory memory = memory_of(b, frame.sp);
    enum lt_step step = LT_STEP_KNOWN;
    Bool certain = True;
    f->depth = f->certain = 0;
    while (f->depth < limit && (step == LT_STEP_KNOWN || step == LT_STEP_PLAUSIBLE)) {
        if (name(frame.ip) == NOT_CODE) {
            step = LT_STEP_LOST;
            break;
        }
        f->ips[f->depth] = frame.ip;
        f->sps[f->depth++] = frame.sp;
        certain &= step == LT_STEP_KNOWN;
        f->certain += certain;
        step = step_to_caller(&frame, &memory);
        if (frame.sp < memory.from || frame.sp >= memory.to)
            memory = memory_of(b, frame.sp);
    }
    f->lost = step == LT_STEP_LOST;
}

/* Get the stack from `s` on, at most `limit` frames, from the cache or by walking. */
static void stack_find(ThreadId tid, const struct host_frame *s, struct found *f, UInt limit)
{
    struct bounds b = bounds_of(tid);
    struct hint *h = &s_hints[hash_of(s->ip ^ *(Addr *)s->sp * 127)];
    struct entry *set = set_of(&b, s, h);
    const struct entry *m = stack_recall(set, &b, s->ip, s->sp, limit);
    if (!m) {
        stack_walk(*s, &b, f, limit);
        keep_hint(h, f, s->sp);
        stack_keep(&set_of(&b, s, h)[s_victim++ % CACHE_WAYS], &b, f, s->sp, limit);
        return;
    }
    f->depth = m->depth < limit ? m->depth : limit;
    f->certain = m->certain < limit ? m->certain : limit;
    f->lost = m->lost && m->depth <= limit;
    for (UInt i = 0; i < f->depth; i++) {
        f->ips[i] = m->ips[i];
        f->sps[i] = m->sps[i];
    }
}

void lt_name_cut(void)
{
    HChar text[40];
    VG_(snprintf)(text, sizeof text, RING_CUT_NAME, lt_options.stack_depth);
    HOST_PUT(luaframe, .key = RAW_CUT, .kind = MT_FRAME_CUT, .function = host_text(text));
    HOST_PUT(luaframe, .key = RAW_UNKNOWN_CALLER, .kind = MT_FRAME_CUT,
             .function = host_text(RING_UNKNOWN_CALLER_NAME));
}

/* Frames that are not certain are left out where a caller that knows more can continue beyond them. */
void host_unwind(ThreadId tid, const struct host_frame *from, bool certain, UInt limit,
                 struct lt_stack *stack)
{
    struct found f = {stack->ips + stack->depth, stack->sps + stack->depth, 0, 0, False};
    if (limit && from)
        stack_find(tid, from, &f, limit);
    else if (limit)
        stack_find(tid, &(struct host_frame){VG_(get_IP)(tid), VG_(get_SP)(tid), bp_of(tid)}, &f, limit);
    const UInt n = certain ? f.certain : f.depth;
    stack->depth += n;
    stack->in_run_time_code = n && name(f.ips[n - 1]) == RUN_TIME_CODE;
    stack->lost = f.lost;
    if (certain)
        stack->lost = !stack->in_run_time_code && (f.lost || f.certain < f.depth);
}
