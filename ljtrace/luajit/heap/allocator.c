/* allocator.c - observe the calls of Lua allocator functions, and record the blocks. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each thread has a short stack of pending calls. A call ends when a return leaves the stack pointer just
 * above the return address of the innermost pending call. Generated code compares the stack pointer with
 * return_sp of the shared header, at each return that can be the one. A call may never return (a long jump
 * out of a custom allocator); it is dropped when a later call is at or above its place on the stack.
 */
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/base/hiding.h"
#include "ljtrace/luajit/core/accounting.h"
#include "ljtrace/luajit/core/caller.h"
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/snapshot/snapshot.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/protocol/table.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/luajit/images.h"
#include "ljtrace/valgrind/luajit/vmstate.h"
#include "ljtrace/valgrind/ring/heap_events.h"
#include "ljtrace/valgrind/ring/records.h"
#include "ljtrace/valgrind/ring/rollback.h"
#include "memtrace/memtrace.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_transtab.h"

enum { MAX_WATCHED = 16, MAX_NESTED = 4, FIRST_SLOTS = 16, MAX_THREADS = 10000, MOST_TRIES = 64 };

/* A watched function. */
struct watched {
    Addr f;
    /* The code that may contain its return; 0, 0 = anywhere. */
    Addr from, to;
    /* The number of the LuaJIT that calls it; 0 = not known. */
    UInt image;
};

/* A pending call. */
struct call {
    Addr sp; /* at entry: the address of the return address */
    Addr ud, ptr;
    UWord osize, nsize;
    struct lt_vm *vm; /* NULL = not known */
    struct lt_stack stack;
};

/* The pending calls of a thread. */
struct calls {
    UInt depth;
    struct lt_ring_place entered; /* the cursor when the outermost call began */
    struct call call[MAX_NESTED];
};

static struct watched s_watched[MAX_WATCHED];
static UInt s_count;

/* Blocks that may be the first ones of new states. */
static struct first {
    Addr ud, block;
    SizeT size;
    UInt tries; /* calls so far; other threads may share the heap */
} s_first[FIRST_SLOTS];
static SizeT s_state_size; /* of a state's first block, once one was seen */
LASTING_TABLE(struct calls *, s_calls, MAX_THREADS);

static struct calls *calls_of(ThreadId tid)
{
    tl_assert(tid < MAX_THREADS);
    if (!s_calls[tid])
        s_calls[tid] = VG_(calloc)("ljtrace.calls", 1, sizeof(struct calls));
    return s_calls[tid];
}

/* NULL = not watched */
static struct watched *watched_at(Addr f)
{
    for (UInt i = 0; i < s_count; i++)
        if (s_watched[i].f == f)
            return &s_watched[i];
    return NULL;
}

Bool lt_lua_is_entry(Addr ip)
{
    return watched_at(ip) != NULL;
}

static UInt image_of(Addr f)
{
    const struct watched *w = watched_at(f);
    return w ? w->image : 0;
}

Bool lt_lua_may_return(Addr ip)
{
    for (UInt i = 0; i < s_count; i++)
        if (s_watched[i].to == 0 || (ip >= s_watched[i].from && ip < s_watched[i].to))
            return True;
    return False;
}

/* Code that was translated before does not observe the function: discard its translations. */
static void retranslate(const struct watched *w)
{
    if (w->to)
        VG_(discard_translations_safely)(w->from, w->to - w->from, "ljtrace");
    else
        VG_(discard_translations_safely)((Addr)0x1000, ~(SizeT)0xfff, "ljtrace");
}

void lt_lua_watch(Addr f, enum lua_allocator whose, UInt image)
{
    struct watched *known = watched_at(f);
    if (known)
        known->image = image; /* perhaps another LuaJIT, loaded later, uses it too */
    if (known || !lt_options.heap_luajit)
        return;
    if (s_count == MAX_WATCHED) {
        VG_(umsg)
        ("ljtrace: more than %d Lua allocator functions: the one at %#lx is not watched\n", MAX_WATCHED, f);
        return;
    }
    struct watched *w = &s_watched[s_count++];
    Addr from, to;
    *w = (struct watched){.f = f, .image = image};
    if (whose != LUA_ALLOCATOR_PROGRAMS && lt_object_code(f, &from, &to)) {
        lt_image_code(from, to);
        if (whose == LUA_ALLOCATOR_OWN)
            w->from = from, w->to = to;
    }
    retranslate(w);
}

void lt_lua_unwatch(Addr from, Addr to)
{
    UInt kept = 0;
    for (UInt i = 0; i < s_count; i++)
        if (s_watched[i].f < from || s_watched[i].f >= to)
            s_watched[kept++] = s_watched[i];
    s_count = kept;
}

void lt_lua_state_closed(Addr ud, Addr g, Bool heap_too)
{
    const struct lt_vm *vm = lt_vm_with_global(g);
    if (lt_options.heap_luajit && heap_too)
        RING_PUT(close, .heap = vm ? lt_vm_heap(vm) : ud, .instructions = lt_ring->instructions);
    lt_vm_closed(ud, g);
}

void lt_lua_heap_moved(Addr from, Addr to)
{
    if (from != to && lt_options.heap_luajit && lt_vm_count(from) == 0 && lt_vm_count(to) == 0)
        RING_PUT(rename, .from = from, .to = to);
}

static void expect_return(const struct calls *c)
{
    lt_ring->return_sp = c->depth ? c->call[c->depth - 1].sp + sizeof(Addr) : 0;
}

Bool lt_lua_inside(ThreadId tid)
{
    return s_calls[tid] && s_calls[tid]->depth > 0;
}

void lt_lua_thread(ThreadId tid)
{
    expect_return(calls_of(tid));
}

/* Drop calls at or below this place on the stack: they cannot return any more. */
static void drop_stale(struct calls *c, Addr sp)
{
    UInt before = c->depth;
    while (c->depth && c->call[c->depth - 1].sp <= sp)
        c->depth--;
    if (before && !c->depth)
        lt_rollback_drop(&c->entered);
}

/* A state is recognised at the second call for its heap: by then its first block is filled in. */
static void find_new_state(Addr ud, Addr function)
{
    struct first *first = &s_first[ud / 16 % FIRST_SLOTS];
    if (first->ud != ud || !first->block)
        return;
    struct lt_vm *vm = lt_vm_first_block(first->block, first->size, ud, image_of(function));
    if (!vm) {
        if (++first->tries == MOST_TRIES)
            first->block = 0;
        return;
    }
    s_state_size = first->size;
    lt_types_unmade(first->block);
    vm->counted = True;
    lt_accounting_made(vm, first->size);
    lt_accounting_internal(vm, first->block, first->size);
    lt_types_global(vm, first->block);
    first->block = 0;
}

/* Can this call create one more state? Then it is for a known state only if the registers show that. */
static Bool may_make_state(Addr ptr, UWord nsize)
{
    return !ptr && nsize == s_state_size;
}

static Addr heap_of(const struct call *call)
{
    return call->vm ? lt_vm_heap(call->vm) : call->ud;
}

/* Only the outermost call is recorded; inner calls are details of it. A free is recorded at its entry,
 * because the memory may be reused before the call returns. */
static void enter_outermost(struct calls *c)
{
    const struct call *call = &c->call[0];
    if (call->ptr && call->nsize == 0) {
        lt_put_free(call->ptr, heap_of(call), MT_HOW_LUA, &call->stack);
        if (call->vm)
            lt_accounting_gone(call->vm, call->ptr, call->osize);
    }
    lt_rollback_enter(&c->entered);
}

/* Find the state for which the call is made, and its stack. */
static void find_caller(ThreadId tid, struct call *call, Bool outermost)
{
    Addr ud = call->ud, ptr = call->ptr;
    Bool maker = may_make_state(ptr, call->nsize);
    struct lt_vm *vm = maker ? lt_vm_caller_in_registers(tid, ud, call->sp) : lt_vm_caller(tid, ud, call->sp);
    call->vm = vm;
    if (!vm) {
        lt_take_stack(tid, &call->stack);
        return;
    }
    /* Not before the state's first string table: that replaces nothing, and is not in its place then. */
    if (ptr || call->nsize)
        lt_types_settle(vm, call->nsize == 0 ? ptr : 0, call->osize);
    if (lt_snapshot_waiting && outermost && call->nsize > call->osize)
        lt_snapshot_try_due(vm);
    if (ptr && call->nsize == 0)
        lt_proto_gone(ptr);
    lt_take_lua_stack(tid, vm, ptr ? 0 : call->nsize, &call->stack);
}

void lt_lua_enter(const VexGuestAMD64State *regs)
{
    ThreadId tid = VG_(get_running_tid)();
    if (lt_is_hiding(tid))
        return; /* a call by the preload's scratch state */
    struct calls *c = calls_of(tid);
    drop_stale(c, regs->guest_RSP);
    if (c->depth == MAX_NESTED)
        return;
    struct call *call = &c->call[c->depth++];
    call->sp = regs->guest_RSP;
    call->ud = lt_lua_heap(regs->guest_RDI);
    call->ptr = regs->guest_RSI;
    call->osize = regs->guest_RDX;
    call->nsize = regs->guest_RCX;
    find_new_state(call->ud, regs->guest_RIP);
    find_caller(tid, call, c->depth == 1);
    if (c->depth == 1)
        enter_outermost(c);
    expect_return(c);
}

static void record_new(const struct call *call, Addr result, const VexGuestAMD64State *regs)
{
    lt_put_new(result, call->nsize, heap_of(call), MT_HOW_LUA, &call->stack);
    if (call->vm) {
        lt_accounting_made(call->vm, call->nsize);
        lt_types_made(call->vm, result, call->nsize, call->sp, &regs->guest_RBX);
    }
    if (call->vm ? call->nsize == s_state_size : call->nsize >= LT_LEAST_GLOBAL)
        s_first[call->ud / 16 % FIRST_SLOTS] = (struct first){call->ud, result, call->nsize, 0};
}

static void record(const struct call *call, const VexGuestAMD64State *regs)
{
    Addr result = regs->guest_RAX;
    if (call->nsize == 0 || !result)
        return;
    if (!call->ptr)
        record_new(call, result, regs);
    else {
        lt_put_resize(call->ptr, result, call->nsize, heap_of(call), MT_HOW_LUA, &call->stack);
        if (call->vm)
            lt_accounting_moved(call->vm, call->ptr, call->osize, result, call->nsize);
    }
}

void lt_lua_return(const VexGuestAMD64State *regs)
{
    struct calls *c = calls_of(VG_(get_running_tid)());
    tl_assert(c->depth);
    struct call *call = &c->call[--c->depth];
    if (c->depth == 0) {
        lt_rollback_return(&c->entered);
        record(call, regs);
    }
    expect_return(c);
}
