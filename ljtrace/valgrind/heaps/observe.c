/* observe.c - record allocation functions without replacing them, at their entries and returns.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Only a thread's outermost call is an event; what the observed function calls or jumps to is a detail of it.
 * A call ends when a return leaves the stack pointer just above the call's return address. If the stack
 * pointer is then further up on the same stack, the call was left by a long jump, and it is dropped. If a
 * signal handler interrupts a call, calls inside the handler are on another level.
 */
#include "ljtrace/luajit/base/program_memory.h"
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/protocol/alloc_functions.h"
#include "ljtrace/valgrind/base/core.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/base/raw_syscalls.h"
#include "ljtrace/valgrind/heaps/malloc.h"
#include "ljtrace/valgrind/heaps/observe.h"
#include "ljtrace/valgrind/ring/block_filter.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/ring/ring.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "memtrace/memtrace.h"
#include <elf.h>
#include "pub_tool_debuginfo.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_seqmatch.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

enum {
    MOST_NAMES = 32,
    OBSERVED_HEAP = MOST_NAMES + 1,
    MOST_OBJECTS = 1000,
    MOST_LEVELS = 4,
    MAX_THREADS = 10000,
    SAME_STACK = 1 << 20
};
#define NOWHERE (~(Addr)0)

/* The function with the longest name that is the end of this one; NULL = none. */
static const struct alloc_function *by_ending(const HChar *name)
{
    const struct alloc_function *found = NULL;
    for (; *name && !found; name++)
        found = alloc_by_name(name);
    return found;
}

/* -- the names from the command line -------------------------------------------------------------------- */

/* A prefix or pattern from the command line. The blocks of each prefix are a heap of their own. The blocks of
 * all patterns are one heap, since a pattern may only name the function that frees them. */
struct named {
    const HChar *text;
    Bool is_pattern;
    const struct alloc_function *as; /* of a pattern with =NAME */
    Bool found;                      /* a function was found that it names */
};
static struct named s_named[MOST_NAMES];
static UInt s_names;
static Bool s_static;

static Bool add_name(const HChar *text, Bool is_pattern)
{
    if (!text[0] || s_names == MOST_NAMES)
        return False;
    s_named[s_names++] = (struct named){.text = text, .is_pattern = is_pattern};
    return True;
}

static Bool add_prefix(const HChar *prefix)
{
    return add_name(prefix, False);
}

static Bool add_pattern(const HChar *pattern)
{
    const HChar *equals = VG_(strrchr)(pattern, '=');
    if (!equals)
        return add_name(pattern, True);
    const struct alloc_function *as = alloc_by_name(equals + 1);
    HChar *copy = VG_(strdup)("ljtrace.observe", pattern);
    copy[equals - pattern] = 0;
    if (!as || as->action == ALLOC_NOTHING || !add_name(copy, True))
        return False;
    s_named[s_names - 1].as = as;
    return True;
}

Bool lt_observe_wanted(void)
{
    return s_static || s_names > 0;
}

Bool lt_observe_is_static(void)
{
    return s_static;
}

/* Is this the file of a program without a dynamic linker? */
static Bool is_static(Int fd)
{
    Elf64_Ehdr header;
    if (lt_sys(__NR_pread64, fd, (ULong)&header, sizeof header, 0, 0, 0) != sizeof header ||
        header.e_phentsize != sizeof(Elf64_Phdr) || VG_(memcmp)(header.e_ident, ELFMAG, SELFMAG) != 0)
        return False;
    for (UInt i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr part;
        Long at = (Long)(header.e_phoff + i * sizeof part);
        if (lt_sys(__NR_pread64, fd, (ULong)&part, sizeof part, at, 0, 0) != sizeof part ||
            part.p_type == PT_INTERP)
            return False;
    }
    return True;
}

/* -- the addresses of the functions --------------------------------------------------------------------- */

/* An observed function. */
struct entry {
    struct entry *next;
    UWord addr;
    const struct alloc_function *function;
    UInt heap; /* 0: the C heap; OBSERVED_HEAP; else the index of a prefix + 1 */
};

static VgHashTable *s_entries;
static Addr s_scanned[MOST_OBJECTS]; /* start addresses of the code of objects whose symbols were searched */
static UInt s_scans;
static Bool s_new_objects = True;
static Bool s_any_symbols;

/* The function that this symbol means, if it is to be observed, and its heap. */
static const struct alloc_function *wanted_as(const HChar *name, UInt *heap)
{
    const HChar *plain = alloc_plain_name(name);
    const struct alloc_function *f = s_static ? alloc_by_name(plain) : NULL;
    *heap = 0;
    for (UInt i = 0; !f && i < s_names; i++) {
        const struct named *w = &s_named[i];
        *heap = w->is_pattern ? OBSERVED_HEAP : i + 1;
        if (!w->is_pattern)
            f = alloc_by_prefix(plain, w->text);
        else if (VG_(string_match)(w->text, name) || VG_(string_match)(w->text, plain))
            f = w->as ? w->as : by_ending(name);
        s_named[i].found |= f != NULL;
    }
    return f && f->action != ALLOC_NOTHING ? f : NULL;
}

static void function_note(const HChar *name, Addr at)
{
    UInt heap;
    const struct alloc_function *f = wanted_as(name, &heap);
    if (!f || VG_(HT_lookup)(s_entries, at))
        return;
    struct entry *e = VG_(malloc)("ljtrace.observe", sizeof *e);
    *e = (struct entry){.addr = at, .function = f, .heap = heap};
    VG_(HT_add_node)(s_entries, e);
}

static void scan(const DebugInfo *object)
{
    for (Int i = VG_(DebugInfo_syms_howmany)(object); i-- > 0;) {
        SymAVMAs at;
        const HChar *name, **others;
        Bool is_text, is_indirect;
        VG_(DebugInfo_syms_getidx)(object, i, &at, NULL, &name, &others, &is_text, &is_indirect, NULL);
        if (!is_text || is_indirect)
            continue;
        s_any_symbols = True;
        function_note(name, at.main);
        for (; others && *others; others++)
            function_note(*others, at.main);
    }
}

static Bool was_scanned(Addr code)
{
    for (UInt i = 0; i < s_scans; i++)
        if (s_scanned[i] == code)
            return True;
    return False;
}

/* Is this object the tool itself, whose symbols Valgrind has read too? */
static Bool is_this_tool(const DebugInfo *object)
{
    return (Addr)is_this_tool - VG_(DebugInfo_get_text_avma)(object) < VG_(DebugInfo_get_text_size)(object);
}

Bool lt_observe_any_symbols(void)
{
    return s_any_symbols;
}

static void scan_new_objects(void)
{
    s_new_objects = False;
    for (const DebugInfo *di = VG_(next_DebugInfo)(NULL); di; di = VG_(next_DebugInfo)(di)) {
        Addr code = VG_(DebugInfo_get_text_avma)(di);
        if (is_this_tool(di) || was_scanned(code) || s_scans == MOST_OBJECTS)
            continue;
        s_scanned[s_scans++] = code;
        scan(di);
    }
}

Bool lt_observe_is_entry(Addr ip)
{
    if (!lt_observe_wanted())
        return False;
    if (s_new_objects)
        scan_new_objects();
    return VG_(HT_lookup)(s_entries, ip) != NULL;
}

void lt_observe_mapped(void)
{
    s_new_objects = True;
}

/* An entry in this range; NULL = none. */
static struct entry *entry_in(Addr from, SizeT size)
{
    struct entry *e;
    VG_(HT_ResetIter)(s_entries);
    while ((e = VG_(HT_Next)(s_entries)))
        if (e->addr - from < size)
            return e;
    return NULL;
}

Bool lt_observe_any_in(Addr from, SizeT size)
{
    return lt_observe_wanted() && entry_in(from, size);
}

void lt_observe_unmapped(Addr from, SizeT size)
{
    struct entry *e;
    UInt kept = 0, had = s_scans;
    for (UInt i = 0; i < had; i++)
        if (s_scanned[i] - from >= size)
            s_scanned[kept++] = s_scanned[i];
    s_scans = kept;
    while (kept < had && (e = entry_in(from, size)))
        VG_(free)(VG_(HT_remove)(s_entries, e->addr));
}

/* -- calls ----------------------------------------------------------------------------------------------- */

/* A call of an observed function. */
struct call {
    Bool active;
    Addr sp;          /* at entry: the address of the return address */
    Addr interrupted; /* stack pointer of the code that this level's signal interrupted */
    struct entry entry;
    Addr block;
    SizeT size;
    struct lt_stack stack;
};

/* The calls of a thread by level: level 0, and one for each signal handler that is running. deeper: handlers
 * without a level. */
struct calls {
    UInt level, deeper; /* deeper: handlers without a level */
    struct call call[MOST_LEVELS];
};

static struct calls *s_calls[MAX_THREADS];
static ThreadId s_highest;
static UInt s_resizing; /* number of calls, of all threads, that may free their block before they return */

Addr lt_observe_sp = NOWHERE;

static struct calls *calls_of(ThreadId tid)
{
    tl_assert(tid < MAX_THREADS);
    if (!s_calls[tid])
        s_calls[tid] = VG_(calloc)("ljtrace.observe", 1, sizeof(struct calls));
    if (tid > s_highest)
        s_highest = tid;
    return s_calls[tid];
}

static struct call *top_of(struct calls *c)
{
    return &c->call[c->level];
}

Bool lt_observe_inside(ThreadId tid)
{
    return s_calls[tid] && top_of(s_calls[tid])->active;
}

static void expect_return(struct calls *c)
{
    struct call *call = top_of(c);
    lt_observe_sp = call->active ? call->sp + sizeof(Addr) : NOWHERE;
}

void lt_observe_thread(ThreadId tid)
{
    if (lt_observe_wanted())
        expect_return(calls_of(tid));
}

/* End a call of the running thread. */
static void end_call(struct call *call)
{
    call->active = False;
    s_resizing -= alloc_may_move(call->entry.function);
    HOST_PUT(leave);
}

void lt_observe_thread_ends(ThreadId tid)
{
    struct calls *c = s_calls[tid];
    if (!c)
        return;
    for (UInt i = 0; i <= c->level; i++)
        if (c->call[i].active)
            end_call(&c->call[i]);
    VG_(memset)(c, 0, sizeof *c);
}

/* Is the instruction before the return address a direct call of this function? */
static Bool is_called(Addr sp, Addr function)
{
    enum { CALL = 0xe8, CALL_BYTES = 5 };
    Addr back = program_number(sp, 8);
    return program_number(back - CALL_BYTES, 1) == CALL &&
           back + (Int)program_number(back - 4, 4) == function;
}

/* Drop calls and handlers that were left by a long jump. A call at the same place as an unfinished one shows
 * this too, unless the first function has jumped to the second. */
static void drop_stale(struct calls *c, Addr sp, Addr function)
{
    while (c->level && sp > top_of(c)->interrupted && sp - top_of(c)->interrupted < SAME_STACK) {
        if (top_of(c)->active)
            end_call(top_of(c));
        c->level--;
        c->deeper = 0;
        if (top_of(c)->active)
            HOST_PUT(enter);
    }
    struct call *call = top_of(c);
    Bool above = sp > call->sp && sp - call->sp < SAME_STACK;
    Bool again = sp == call->sp && (function == call->entry.addr || is_called(sp, function));
    if (call->active && (above || again))
        end_call(call);
}

/* The number of the heap in the ring. It is above those of other kinds, and is not the address of a pool. */
static Addr heap_of(const struct call *call)
{
    static Bool written[OBSERVED_HEAP + 1];
    UInt number = call->entry.heap;
    if (number == 0)
        return RAW_HEAP_C;
    Addr heap = RAW_HEAP_POOL | number;
    if (!written[number]) {
        const HChar *name = number == OBSERVED_HEAP ? "observed" : s_named[number - 1].text;
        HOST_PUT(heap, .kind = RAW_KIND_CUSTOM, .heap = heap, .name = host_text(name));
        written[number] = True;
    }
    return heap;
}

static UInt how_of(const struct call *call, UInt how)
{
    return call->entry.heap ? MT_HOW_CUSTOM : how;
}

static void put_free(const struct call *call, UInt how)
{
    host_block_free(call->block, heap_of(call), how_of(call, how), &call->stack);
}

/* A thread gets a block whose memory another thread's resize has freed already, before that call has
 * returned. Record the free now. */
static void give_up(Addr block)
{
    for (ThreadId tid = 0; s_resizing && tid <= s_highest; tid++) {
        struct call *call = s_calls[tid] ? top_of(s_calls[tid]) : NULL;
        if (call && call->active && alloc_may_move(call->entry.function) && call->block == block) {
            put_free(call, MT_HOW_REALLOC);
            call->block = 0;
        }
    }
}

static void put_new(const struct call *call, Addr block)
{
    if (!block)
        return;
    give_up(block);
    lt_filter_add_own(block);
    UInt how = call->entry.function->how;
    host_block_new(block, call->size, heap_of(call),
                   how_of(call, how == MT_HOW_REALLOC ? MT_HOW_MALLOC : how), &call->stack);
}

static void put_resize(const struct call *call, Addr block)
{
    if (block != call->block)
        give_up(block);
    lt_filter_add_own(block);
    host_block_resize(call->block, block, call->size, heap_of(call), how_of(call, MT_HOW_REALLOC),
                      &call->stack);
}

static void take_arguments(struct call *call, const VexGuestAMD64State *regs)
{
    const struct alloc_call of = alloc_call_of(call->entry.function, regs->guest_RDI, regs->guest_RSI,
                                               regs->guest_RDX, regs->guest_RCX);
    call->block = of.block;
    call->size = of.size;
}

void lt_observe_enter(const VexGuestAMD64State *regs)
{
    ThreadId tid = VG_(get_running_tid)();
    struct calls *c = calls_of(tid);
    struct entry *entry = VG_(HT_lookup)(s_entries, regs->guest_RIP);
    Addr sp = regs->guest_RSP;
    drop_stale(c, sp, regs->guest_RIP);
    struct call *call = top_of(c);
    if (!call->active && entry && !lt_lua_inside(tid)) {
        *call = (struct call){.active = True, .sp = sp, .entry = *entry, .interrupted = call->interrupted};
        take_arguments(call, regs);
        lt_take_own_stack(tid, &call->stack);
        if (entry->function->action == ALLOC_FREE && call->block)
            put_free(call, entry->function->how);
        s_resizing += alloc_may_move(call->entry.function);
        HOST_PUT(enter);
    }
    expect_return(c);
}

static void record_resize(const struct call *call, Addr result)
{
    const struct alloc_call of = {call->block, call->size};
    if (!call->block)
        put_new(call, result);
    else if (result)
        put_resize(call, result);
    else if (alloc_has_freed(call->entry.function, &of))
        put_free(call, MT_HOW_REALLOC);
}

static void record(const struct call *call, Addr result)
{
    switch (call->entry.function->action) {
    case ALLOC_MAKE:
    case ALLOC_MAKE_PAGES:
    case ALLOC_MAKE_SECOND:
    case ALLOC_MAKE_COUNT:
        put_new(call, result);
        break;
    case ALLOC_MAKE_AT:
        put_new(call, (UInt)result == 0 ? program_number(call->block, sizeof(Addr)) : 0);
        break;
    case ALLOC_RESIZE:
    case ALLOC_RESIZE_OR_FREE:
    case ALLOC_RESIZE_COUNT:
    case ALLOC_RESIZE_FOURTH:
        record_resize(call, result);
        break;
    case ALLOC_RESIZE_HERE:
        if (result >= call->size)
            put_resize(call, call->block);
        break;
    default: /* a free was recorded at its entry, since its memory may be reused before it returns */
        break;
    }
}

void lt_observe_return(const VexGuestAMD64State *regs)
{
    struct calls *c = calls_of(VG_(get_running_tid)());
    struct call *call = top_of(c);
    Addr sp = regs->guest_RSP;
    if (!call->active || sp - lt_observe_sp >= SAME_STACK)
        return;
    end_call(call);
    if (sp == lt_observe_sp)
        record(call, regs->guest_RAX);
    expect_return(c);
}

static void on_signal(ThreadId tid, Int number, Bool other_stack)
{
    if (!lt_observe_wanted())
        return;
    struct calls *c = calls_of(tid);
    if (c->level == MOST_LEVELS - 1) {
        c->deeper++;
        return;
    }
    if (top_of(c)->active)
        HOST_PUT(leave);
    c->level++;
    *top_of(c) = (struct call){.interrupted = VG_(get_SP)(tid)};
    expect_return(c);
}

static void on_signal_handled(ThreadId tid, Int number)
{
    struct calls *c = s_calls[tid];
    if (!c || c->level == 0)
        return;
    if (c->deeper) {
        c->deeper--;
        return;
    }
    if (top_of(c)->active)
        end_call(top_of(c));
    c->level--;
    if (top_of(c)->active)
        HOST_PUT(enter);
    expect_return(c);
}

static void put_names(const HChar *key, Bool are_patterns)
{
    static HChar list[8192];
    SizeT used = 0;
    for (UInt i = 0; i < s_names; i++)
        if (s_named[i].is_pattern == are_patterns && used + VG_(strlen)(s_named[i].text) + 2 < sizeof list)
            used += VG_(sprintf)(list + used, "%s%s", used ? "," : "", s_named[i].text);
    if (used)
        lt_put_info(key, list);
}

void lt_observe_put_facts(void)
{
    put_names("alloc_prefix", False);
    put_names("observe_alloc", True);
}

void lt_observe_finish(void)
{
    for (UInt i = 0; i < s_names && VG_(clo_verbosity) > 0; i++)
        if (!s_named[i].found)
            VG_(umsg)
    ("ljtrace: --%s=%s names no allocation function that has a symbol in the program or its libraries\n",
     s_named[i].is_pattern ? "observe-alloc" : "alloc-prefix", s_named[i].text);
}

void lt_observe_start(void)
{
    s_entries = VG_(HT_construct)("ljtrace.observe");
    s_static = VG_(cl_exec_fd) >= 0 && is_static(VG_(cl_exec_fd));
    VG_(track_pre_deliver_signal)(on_signal);
    VG_(track_post_deliver_signal)(on_signal_handled);
}

void lt_observe_init(void)
{
    lt_option_add("--alloc-prefix", add_prefix, "--alloc-prefix has no prefix, or was given too often\n");
    lt_option_add(
        "--observe-alloc", add_pattern,
        "--observe-alloc takes PATTERN or PATTERN=NAME, where NAME is a function such as malloc or free\n");
}
