/* lt_frames.c - unwinding and naming. (host side, no libc; see lt_frames.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "lt_frames.h"
#include "lt_options.h"
#include "lt_peek.h"
#include "lt_ring.h"
#include "lt_vm_trace.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_threadstate.h"

enum { NAMED_SLOTS = 1 << 15, NAME_LIMIT = 4000, MEMO_SETS = 1 << 9, MEMO_WAYS = 4, MEMO_DEPTH = 24 };

/* Where an address on the stack leads. */
enum place { NOT_CODE, RUN_TIME_CODE, OBJECT };

/* Direct-mapped: the code address last named in each slot. */
static struct named {
    Addr ip;
    enum place place;
} s_named[NAMED_SLOTS];

/* Unwinding costs as much as all else about an allocation, and most allocations come along few ways. Memos
 * keep the last few stacks seen at a place (code address, stack pointer, return address); one still holds if
 * every return address that was found then is in its place on the stack now. */
struct memo {
    Addr sp;
    UInt depth, limit; /* at most so many frames were taken */
    Addr ips[MEMO_DEPTH];
    Addr sps[MEMO_DEPTH];
};

static struct memo s_memo[MEMO_SETS][MEMO_WAYS];
static UInt s_victim; /* the way to be overwritten next */

static UInt slot_of(Addr ip)
{
    return (UInt)((ip * 0x9e3779b97f4a7c15ULL) >> 49);
}

void lt_forget_frames(void)
{
    VG_(memset)(s_named, 0, sizeof s_named);
    for (UInt i = 0; i < MEMO_SETS; i++)
        for (UInt k = 0; k < MEMO_WAYS; k++)
            s_memo[i][k].depth = 0;
}

static UInt limited_length(const HChar *s)
{
    SizeT n = VG_(strlen)(s);
    return n < NAME_LIMIT ? (UInt)n : NAME_LIMIT;
}

static void put_frame(Addr ip, UInt line, const HChar *const text[3])
{
    UInt size[3] = {limited_length(text[0]), limited_length(text[1]), limited_length(text[2])};
    uint64_t words[4] = {ip, line, raw_pair(size[0], size[1]), size[2]};
    lt_ring_put_text(RAW_FRAME, words, 4, text, size, 3);
}

/* The debug information's answers live in its own buffers until the next question: copy. */
static void copy_name(HChar *to, const HChar *directory, const HChar *name)
{
    if (directory && directory[0])
        VG_(snprintf)(to, NAME_LIMIT, "%s/%s", directory, name);
    else
        VG_(snprintf)(to, NAME_LIMIT, "%s", name);
}

static Bool is_executable(Addr ip)
{
    const NSegment *segment = VG_(am_find_nsegment)(ip);
    return segment && segment->hasX;
}

static enum place describe_frame(Addr ip)
{
    static HChar function[NAME_LIMIT], file[NAME_LIMIT], object[NAME_LIMIT];
    DiEpoch epoch = VG_(current_DiEpoch)();
    const HChar *name, *directory;
    UInt line = 0;
    function[0] = file[0] = object[0] = 0;
    if (VG_(get_fnname)(epoch, ip, &name))
        copy_name(function, NULL, name);
    if (VG_(get_filename_linenum)(epoch, ip, &name, &directory, &line))
        copy_name(file, directory, name);
    if (VG_(get_objname)(epoch, ip, &name))
        copy_name(object, NULL, name);
    if (!object[0] && !is_executable(ip))
        return NOT_CODE;
    if (!object[0] && lt_trace_name(ip))
        return RUN_TIME_CODE;
    const HChar *text[3] = {function, file, object};
    put_frame(ip, line, text);
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

/* A trace's code may have been replaced by another's since it was named. */
void lt_name_frame(Addr ip)
{
    const struct named *named = &s_named[slot_of(ip)];
    Bool was_named = named->ip == ip;
    if (name(ip) == RUN_TIME_CODE && was_named)
        lt_trace_name(ip);
}

/* Code outside all objects was made at run time: it has no unwind information, and what the unwinder guesses
 * beyond it are numbers that happen to lie on the stack. */
static UInt known_depth(const Addr *ips, UInt found)
{
    UInt depth = 0;
    enum place place = OBJECT;
    while (depth < found && place == OBJECT)
        place = name(ips[depth++]);
    return place == NOT_CODE ? depth - 1 : depth;
}

static Addr return_address(Addr sp_of_caller)
{
    return *(Addr *)(sp_of_caller - sizeof(Addr));
}

/* Only what lies on the thread's own stack is sure to be readable. */
static Bool on_stack(ThreadId tid, Addr from, Addr to)
{
    Addr top = VG_(thread_get_stack_max)(tid);
    return from <= to && to <= top && from >= top - VG_(thread_get_stack_size)(tid);
}

static Bool memo_holds(const struct memo *m, ThreadId tid, Addr ip, Addr sp)
{
    if (m->sp != sp || m->depth < 2 || m->ips[0] != ip || !on_stack(tid, sp, m->sps[m->depth - 1]))
        return False;
    for (UInt i = 1; i < m->depth; i++)
        if (return_address(m->sps[i]) != m->ips[i] + 1)
            return False;
    return True;
}

static void remember(struct memo *m, const struct lt_stack *stack, Addr sp, UInt limit)
{
    m->depth = 0;
    m->limit = limit;
    if (stack->depth > MEMO_DEPTH)
        return;
    for (UInt i = 0; i < stack->depth; i++) {
        m->ips[i] = stack->ips[i];
        m->sps[i] = stack->sps[i];
    }
    m->sp = sp;
    m->depth = stack->depth;
    if (!memo_holds(m, VG_(get_running_tid)(), m->ips[0], sp))
        m->depth = 0; /* its return addresses are not where they are looked for */
}

/* The memo of a stack, as far as `limit` frames; NULL = there is none. */
static const struct memo *recall(struct memo *set, ThreadId tid, Addr ip, Addr sp, UInt limit)
{
    for (UInt k = 0; k < MEMO_WAYS; k++)
        if (memo_holds(&set[k], tid, ip, sp) && (set[k].depth < set[k].limit || set[k].limit >= limit))
            return &set[k];
    return NULL;
}

/* The thread's stack from its registers on, at most `limit` frames. */
static void take(ThreadId tid, struct lt_stack *stack, UInt limit)
{
    Addr ip = VG_(get_IP)(tid), sp = VG_(get_SP)(tid);
    struct memo *set = s_memo[((sp ^ ip * 31 ^ *(Addr *)sp * 127) * 0x9e3779b97f4a7c15ULL) >> 55];
    const struct memo *m = recall(set, tid, ip, sp, limit);
    if (!m) {
        UInt found = VG_(get_StackTrace)(tid, stack->ips, limit, stack->sps, NULL, 0);
        stack->depth = known_depth(stack->ips, found);
        remember(&set[s_victim++ % MEMO_WAYS], stack, sp, limit);
    } else {
        stack->depth = m->depth < limit ? m->depth : limit;
        for (UInt i = 0; i < stack->depth; i++) {
            stack->ips[i] = m->ips[i];
            stack->sps[i] = m->sps[i];
        }
    }
    stack->in_run_time_code = stack->depth && name(stack->ips[stack->depth - 1]) == RUN_TIME_CODE;
}

void lt_take_stack(ThreadId tid, struct lt_stack *stack)
{
    lt_take_stack_to(tid, stack, lt_options.stack_depth);
}

void lt_take_stack_to(ThreadId tid, struct lt_stack *stack, UInt limit)
{
    stack->depth = 0;
    stack->in_run_time_code = False;
    if (lt_options.stack_depth)
        take(tid, stack, limit);
}

/* What the unwinder starts from. */
struct start {
    Addr ip, sp, bp;
};

static void get_start(ThreadId tid, struct start *s)
{
    s->ip = VG_(get_IP)(tid);
    s->sp = VG_(get_SP)(tid);
    VG_(get_shadow_regs_area)
    (tid, (UChar *)&s->bp, 0, offsetof(VexGuestAMD64State, guest_RBP), sizeof s->bp);
}

/* Shadow 0 are the registers themselves. */
static void set_start(ThreadId tid, const struct start *s)
{
    VG_(set_shadow_regs_area)
    (tid, 0, offsetof(VexGuestAMD64State, guest_RIP), sizeof s->ip, (const UChar *)&s->ip);
    VG_(set_shadow_regs_area)
    (tid, 0, offsetof(VexGuestAMD64State, guest_RSP), sizeof s->sp, (const UChar *)&s->sp);
    VG_(set_shadow_regs_area)
    (tid, 0, offsetof(VexGuestAMD64State, guest_RBP), sizeof s->bp, (const UChar *)&s->bp);
}

/* The unwinder starts from the thread's registers: lend it others for the time. */
void lt_resume_stack(ThreadId tid, struct lt_stack *stack, Addr sp)
{
    static struct lt_stack more;
    struct start own;
    Addr saved[2];
    if (stack->depth >= lt_options.stack_depth || !lt_peek(sp - sizeof saved, saved, sizeof saved) ||
        !lt_readable(sp, sizeof(Addr)))
        return;
    struct start there = {saved[1] - 1, sp, saved[0]};
    get_start(tid, &own);
    set_start(tid, &there);
    take(tid, &more, lt_options.stack_depth - stack->depth);
    set_start(tid, &own);
    VG_(memcpy)(stack->ips + stack->depth, more.ips, more.depth * sizeof(Addr));
    VG_(memcpy)(stack->sps + stack->depth, more.sps, more.depth * sizeof(Addr));
    stack->depth += more.depth;
}
