/* allocator.c - record the blocks of Lua states by the calls of their allocator functions.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Each thread has a short stack of pending calls. A call may never return (a long jump out of a custom allocator); it is
 * dropped when a later call is at or above its place on the stack.
 */
#include "ljtrace/luajit/heap/allocator.h"
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/base/stack_tree.h"
#include "ljtrace/luajit/core/accounting.h"
#include "ljtrace/luajit/core/caller.h"
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/snapshot/snapshot.h"
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/luajit/state/types.h"
#include "ljtrace/protocol/table.h"
#include "memtrace/memtrace.h"

enum { MAX_NESTED = 4, FIRST_SLOTS = 16, MAX_THREADS = 10000, MOST_TRIES = 64 };

/* A pending call. */
struct call {
    uint64_t sp; /* at entry: the address of the return address */
    uint64_t ud, ptr;
    uint64_t osize, nsize;
    struct lt_vm *vm; /* NULL = not known */
    uint32_t tree;    /* stack_tree_generation, when the stack was taken */
    struct lt_stack stack;
};

/* The pending calls of a thread. */
struct calls {
    uint32_t depth;
    struct call call[MAX_NESTED];
};

/* Blocks that may be the first ones of new states. */
static struct first {
    uint64_t ud, block;
    size_t size;
    uint32_t tries; /* calls so far; other threads may share the heap */
} s_first[FIRST_SLOTS];
static size_t s_state_size; /* of a state's first block, once one was seen */
LASTING_TABLE(struct calls *, s_calls, MAX_THREADS);
TABLE(struct lt_stack, s_whole, 1); /* of the last call that was seen as a whole */

static struct calls *calls_of(uint32_t tid)
{
    host_assert(tid < MAX_THREADS);
    if (!s_calls[tid])
        s_calls[tid] = host_new(sizeof(struct calls));
    return s_calls[tid];
}

void lt_lua_state_closed(uint64_t ud, uint64_t g, bool heap_too)
{
    const struct lt_vm *vm = lt_vm_with_global(g);
    if (luajit_options.heaps && heap_too)
        HOST_PUT(close, .heap = vm ? lt_vm_heap(vm) : ud, .instructions = host_time());
    lt_vm_closed(ud, g);
}

void lt_lua_heap_moved(uint64_t from, uint64_t to)
{
    if (from != to && luajit_options.heaps && lt_vm_count(from) == 0 && lt_vm_count(to) == 0)
        HOST_PUT(rename, .from = from, .to = to);
}

bool lt_lua_inside(uint32_t tid)
{
    return s_calls[tid] && s_calls[tid]->depth > 0;
}

static uint64_t returns_to(const struct calls *c)
{
    return c->depth ? c->call[c->depth - 1].sp + sizeof(uint64_t) : 0;
}

uint64_t lt_lua_returns_to(uint32_t tid)
{
    return returns_to(calls_of(tid));
}

/* Those at or below this place on the stack cannot return any more. */
static bool drop_stale(struct calls *c, uint64_t sp)
{
    const uint32_t before = c->depth;
    while (c->depth && c->call[c->depth - 1].sp <= sp)
        c->depth--;
    return before && !c->depth;
}

bool lt_lua_drop_stale(uint32_t tid, uint64_t sp)
{
    return drop_stale(calls_of(tid), sp);
}

/* A state is recognised at the second call for its heap: by then its first block is filled in. */
static void find_new_state(uint64_t ud, uint32_t image)
{
    struct first *first = &s_first[ud / 16 % FIRST_SLOTS];
    if (first->ud != ud || !first->block)
        return;
    struct lt_vm *vm = lt_vm_first_block(first->block, first->size, ud, image);
    if (!vm) {
        if (++first->tries == MOST_TRIES)
            first->block = 0;
        return;
    }
    s_state_size = first->size;
    lt_types_unmade(first->block);
    vm->counted = true;
    lt_accounting_made(vm, first->size);
    lt_accounting_internal(vm, first->block, first->size);
    lt_types_global(vm, first->block);
    first->block = 0;
}

/* Can this call create one more state? Then it is for a known state only if the registers show that. */
static bool may_make_state(uint64_t ptr, uint64_t nsize)
{
    return !ptr && nsize == s_state_size;
}

static uint64_t heap_of(const struct call *call)
{
    return call->vm ? lt_vm_heap(call->vm) : call->ud;
}

/* A free is recorded at its entry, because the memory may be reused before the call returns. */
static void record_free(const struct call *call)
{
    host_block_free(call->ptr, heap_of(call), MT_HOW_LUA, &call->stack);
    if (call->vm)
        lt_accounting_gone(call->vm, call->ptr, call->osize);
}

/* Find the state for which the call is made, and its stack. */
static void find_caller(uint32_t tid, struct call *call, bool outermost)
{
    uint64_t ud = call->ud, ptr = call->ptr;
    bool maker = may_make_state(ptr, call->nsize);
    struct lt_vm *vm = maker ? lt_vm_caller_in_registers(tid, ud, call->sp) : lt_vm_caller(tid, ud, call->sp);
    call->vm = vm;
    if (!vm) {
        c_stack_take(tid, &call->stack);
        return;
    }
    /* Not before the state's first string table: that replaces nothing, and is not in its place then. */
    if (ptr || call->nsize)
        lt_types_settle(vm, call->nsize == 0 ? ptr : 0, call->osize);
    if ((lt_snapshot_waiting || luajit_options.snapshot_growing) && outermost && call->nsize > call->osize)
        lt_snapshot_try(vm);
    if (ptr && call->nsize == 0)
        lt_proto_gone(ptr);
    lt_take_lua_stack(tid, vm, ptr ? 0 : call->nsize, &call->stack);
    call->tree = stack_tree_generation();
}

/* Only the outermost call is recorded; inner calls are details of it. */
enum lt_lua_call lt_lua_enter(uint32_t tid, const uint64_t *registers, uint32_t image)
{
    if (lt_is_hiding(tid))
        return LT_CALL_IGNORED; /* a call by a scratch state */
    struct calls *c = calls_of(tid);
    drop_stale(c, registers[HOST_RSP]);
    if (c->depth == MAX_NESTED)
        return LT_CALL_IGNORED;
    struct call *call = &c->call[c->depth++];
    call->sp = registers[HOST_RSP];
    call->ud = lt_lua_heap(registers[HOST_RDI]);
    call->ptr = registers[HOST_RSI];
    call->osize = registers[HOST_RDX];
    call->nsize = registers[HOST_RCX];
    find_new_state(call->ud, image);
    find_caller(tid, call, c->depth == 1);
    if (c->depth > 1)
        return LT_CALL_INNER;
    if (call->ptr && call->nsize == 0)
        record_free(call);
    return LT_CALL_OUTERMOST;
}

static void record_new(const struct call *call, uint64_t result, const uint64_t *registers)
{
    host_block_new(result, call->nsize, heap_of(call), MT_HOW_LUA, &call->stack);
    if (call->vm) {
        lt_accounting_made(call->vm, call->nsize);
        lt_types_made(call->vm, result, call->nsize, call->sp, &registers[HOST_RBX]);
    }
    if (call->vm ? call->nsize == s_state_size : call->nsize >= LT_LEAST_GLOBAL)
        s_first[call->ud / 16 % FIRST_SLOTS] = (struct first){call->ud, result, call->nsize, 0};
}

static void record(const struct call *call, const uint64_t *registers)
{
    uint64_t result = registers[HOST_RAX];
    if (call->nsize == 0 || !result)
        return;
    if (!call->ptr)
        record_new(call, result, registers);
    else {
        host_block_resize(call->ptr, result, call->nsize, heap_of(call), MT_HOW_LUA, &call->stack);
        if (call->vm)
            lt_accounting_moved(call->vm, call->ptr, call->osize, result, call->nsize);
    }
}

/* -- calls that are seen as a whole -- */

/* Does lt_lua_enter find out something about this call that is not known yet? */
static inline bool is_special(uint32_t tid, const struct lt_whole_call *call)
{
    const struct first *first = &s_first[call->ud / 16 % FIRST_SLOTS];
    return (s_calls[tid] && s_calls[tid]->depth) || (first->ud == call->ud && first->block) ||
           may_make_state(call->ptr, call->nsize) || lt_snapshot_waiting || luajit_options.snapshot_growing ||
           lt_is_hiding(tid);
}

bool lt_lua_enter_whole(uint32_t tid, struct lt_whole_call *call)
{
    call->ud = lt_lua_heap(call->ud);
    if (is_special(tid, call))
        return false;
    struct lt_vm *vm = call->vm = lt_vm_of(call->ud);
    if (!vm)
        return false;
    const bool frees = call->ptr && !call->nsize;
    if (call->ptr || call->nsize)
        lt_types_settle(vm, frees ? call->ptr : 0, call->osize);
    if (frees)
        lt_proto_gone(call->ptr);
    lt_take_lua_stack(tid, vm, call->ptr ? 0 : call->nsize, s_whole);
    if (frees) {
        host_block_free(call->ptr, lt_vm_heap(vm), MT_HOW_LUA, s_whole);
        lt_accounting_gone(vm, call->ptr, call->osize);
    }
    return true;
}

void lt_lua_return_whole(const struct lt_whole_call *call, uint64_t result, const uint64_t *registers)
{
    struct lt_vm *vm = call->vm;
    if (!call->nsize || !result)
        return;
    if (call->ptr) {
        host_block_resize(call->ptr, result, call->nsize, lt_vm_heap(vm), MT_HOW_LUA, s_whole);
        lt_accounting_moved(vm, call->ptr, call->osize, result, call->nsize);
    } else {
        host_block_new(result, call->nsize, lt_vm_heap(vm), MT_HOW_LUA, s_whole);
        lt_accounting_made(vm, call->nsize);
        lt_types_made(vm, result, call->nsize, call->sp, &registers[HOST_RBX]);
    }
}

uint64_t lt_lua_return(uint32_t tid, const uint64_t *registers)
{
    struct calls *c = calls_of(tid);
    host_assert(c->depth);
    struct call *call = &c->call[--c->depth];
    if (call->stack.id && call->tree != stack_tree_generation())
        lt_take_lua_stack(tid, call->vm, call->ptr ? 0 : call->nsize,
                          &call->stack); /* other threads' stacks were many */
    if (c->depth == 0)
        record(call, registers);
    return returns_to(c);
}
