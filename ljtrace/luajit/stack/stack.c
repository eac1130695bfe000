/* stack.c - take the stack of a state and join it with the C stack.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * How a joined stack is made: cache_key.c reads the values on which it depends, latest.c looks for what has changed
 * since the latest stack, and cache.c for an earlier stack with the same values. If there is none, the host unwinds the C
 * stack, and walk.c walks the Lua stack. walk.c uses coroutine.c to continue in the thread that has resumed a coroutine,
 * parser.c for the line of a chunk being parsed, and luajit/jit/trace.c for the frames on a trace. Finally
 * `join`, here, puts the Lua frames in place of the interpreter's frames on the C stack.
 */
#include "ljtrace/luajit/stack/stack.h"
#include "ljtrace/luajit/base/options.h"
#include "ljtrace/luajit/base/stack_tree.h"
#include "ljtrace/luajit/base/text.h"
#include "ljtrace/luajit/core/caller.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/luajit/stack/cache.h"
#include "ljtrace/luajit/stack/latest.h"
#include "ljtrace/luajit/stack/notes.h"
#include "ljtrace/luajit/stack/walk.h"
#include "ljtrace/protocol/ring.h"
#include "ljtrace/protocol/table.h"

static void get_registers(uint32_t tid, struct lt_registers *r)
{
    r->base = host_register(tid, HOST_RDX);
    r->pc = host_register(tid, HOST_RBX);
}

/* The most frames of a stack. With --stack-depth=0 it is one, the innermost Lua line. */
static uint32_t room(void)
{
    return luajit_options.stack_depth ? luajit_options.stack_depth : 1;
}

/* Append a frame. line_comes: a frame with a line follows, for which room has to remain. Returns False if there is no
 * room. */
static bool put(struct lt_stack *to, uint64_t ip, uint64_t sp, bool line_comes)
{
    if (to->depth + (line_comes ? 1 : 0) >= room())
        return false;
    to->sps[to->depth] = sp;
    to->ips[to->depth++] = ip;
    return true;
}

/* Replace each frame of the interpreter by the Lua frames of this entry into the VM. The innermost Lua line
 * is always included, however deep the C stack above it is. If not all frames fit, the stack is marked as cut. */
static void join(const struct lt_stack *host, struct lua_frames *lua, struct lt_stack *to)
{
    uint32_t i = 0;
    bool whole = true;
    to->id = to->depth = 0;
    for (uint32_t k = 0; k < lua->count; k++) {
        while (i < host->depth && host->sps[i] < lua->cframe[k]) {
            whole &= put(to, host->ips[i], host->sps[i], k < lua->lined);
            i++;
        }
        if (i < host->depth && host->sps[i] == lua->cframe[k])
            i++;
        lua->at[k] = to->depth;
        whole &= put(to, lua->key[k], lua->cframe[k], k + 1 < lua->lined);
    }
    for (; i < host->depth; i++)
        whole &= put(to, host->ips[i], host->sps[i], 0);
    if (!luajit_options.stack_depth && !lua->lined)
        to->depth = 0;
    to->sps[to->depth] = UINT64_MAX;
    if (luajit_options.stack_depth && !whole)
        to->ips[to->depth++] = RAW_CUT;
    else if (luajit_options.stack_depth && host->lost)
        to->ips[to->depth++] = RAW_UNKNOWN_CALLER;
}

/* The VM's code at the exit of a trace cannot be unwound. Continue at the first of the VM's frames that the
 * unwinder has not reached. A C stack that was only cut is left as it is. */
static void continue_after_trace_exit(uint32_t tid, const struct lt_vm *vm, struct lt_stack *host)
{
    if (!host->depth || host->depth > room())
        return;
    uint64_t cframe = lt_vm_cframe(vm), reached = host->sps[host->depth - 1];
    for (uint32_t i = 0; i < LT_MOST_FRAMES && cframe && cframe <= reached; i++)
        cframe = lt_cframe_before(vm, cframe);
    if (cframe > reached)
        c_stack_continue(tid, host, cframe + vm->layout->cframe_size);
}

static void note_trace(uint64_t sp, uint64_t code)
{
    lt_notes_return(sp, code);
    lt_notes_trace(sp);
}

/* A trace's code has no unwind information. Continue the C stack at the VM's frame. The trace's own frame is
 * removed, since the Lua frames represent it; its code address is returned. */
static uint64_t continue_after_trace(uint32_t tid, const struct lt_vm *vm, struct lt_stack *host)
{
    if (!host->depth || !host->in_run_time_code)
        return 0;
    uint64_t code = host->ips[--host->depth], cframe = lt_vm_cframe(vm);
    if (host->depth)
        note_trace(host->sps[host->depth], code);
    if (cframe)
        c_stack_continue(tid, host, cframe + vm->layout->cframe_size);
    return code;
}

/* One more than the frames that there is room for after the C functions that the VM has called. */
static uint32_t room_below(const struct lt_stack *host, uint64_t cframe)
{
    uint32_t above = 0;
    while (above < host->depth && above < room() && host->sps[above] < cframe)
        above++;
    return room() + 1 - above;
}

static void take_stack(uint32_t tid, struct lt_vm *vm, size_t size, bool sampled, struct lt_stack *host,
                       struct lua_frames *lua, struct lt_stack *stack)
{
    struct lt_registers live;
    bool on_trace = vm->layout->jit_base && lt_vm_ref(vm, vm->g + vm->layout->jit_base) != 0;
    lt_notes_begin();
    /* On a trace, the stack has to reach the trace's frame. */
    c_stack_take_certain(tid, host, on_trace ? LT_MOST_FRAMES : room() + 1);
    lua->count = lua->lined = 0;
    uint64_t code = continue_after_trace(tid, vm, host);
    if (!code)
        continue_after_trace_exit(tid, vm, host);
    sampled = sampled && !code && host->depth && host->sps[0] == lt_vm_cframe(vm);
    if (sampled)
        get_registers(tid, &live);
    lua->wanted = room_below(host, lt_vm_cframe(vm));
    lt_walk_lua(vm, host, sampled ? &live : NULL, code, size, lua);
    join(host, lua, stack);
}

static uint64_t s_taken, s_checked;

/* The number of a stack. */
static uint32_t number_of(const struct lt_stack *stack)
{
    TABLE(uint32_t, node, LT_MOST_FRAMES + 1);
    stack_tree_reserve(stack->depth);
    stack_tree_find((const uint64_t *)stack->ips, stack->depth, node, 0);
    return node[0];
}

static void check(uint32_t tid, struct lt_vm *vm, size_t size, uint32_t number)
{
    TABLE(struct lt_stack, host, 1);
    TABLE(struct lua_frames, lua, 1);
    TABLE(struct lt_stack, anew, 1);
    take_stack(tid, vm, size, false, host, lua, anew);
    if (number_of(anew) != number)
        host_panic("a stack that was found differs from the walked one");
    s_checked++;
}

void lt_report_checked_stacks(void)
{
    if (luajit_options.check_stacks)
        text_say("ljtrace: %lu Lua stacks, of which %lu were found without a walk and were checked\n",
                 s_taken, s_checked);
}

/* Walk over both stacks, and keep the result if what it depends on is known. */
static void walk_and_keep(uint32_t tid, struct lt_vm *vm, size_t size, struct lt_cache_key *key,
                          struct lt_stack *stack)
{
    TABLE(struct lt_stack, host, 1);
    TABLE(struct lua_frames, lua, 1);
    take_stack(tid, vm, size, false, host, lua, stack);
    for (uint32_t i = 1; i < host->depth; i++)
        lt_notes_return(host->sps[i], host->ips[i]);
    if (!key->usable || lt_notes_taken()->failed || !stack->depth ||
        (key->word[KEY_JIT] && !(vm->allocating.trace && vm->layout->recorder)))
        return;
    stack->id = number_of(stack);
    key->word[KEY_TREE] = stack_tree_generation();
    if (!lt_latest_keep(tid, vm, size, key, host, lua, stack))
        lt_stack_cache_keep(key, vm, size, stack->id);
}

void lt_take_lua_stack(uint32_t tid, struct lt_vm *vm, size_t size, struct lt_stack *stack)
{
    struct lt_cache_key key;
    s_taken++;
    if (luajit_options.check_stacks) /* the tree must not begin anew before the check */
        stack_tree_reserve(LT_MOST_FRAMES);
    const bool found = lt_cache_key_get(tid, vm, &key) && (lt_latest_find(tid, vm, size, &key, stack) ||
                                                           lt_stack_cache_find(vm, size, &key, stack));
    if (!found)
        walk_and_keep(tid, vm, size, &key, stack);
    else if (luajit_options.check_stacks)
        check(tid, vm, size, stack->id);
}

void lt_take_own_stack(uint32_t tid, struct lt_stack *stack)
{
    struct lt_vm *vm = lt_vm_running(tid);
    if (vm)
        lt_take_lua_stack(tid, vm, 0, stack);
    else
        c_stack_take(tid, stack);
}

void lt_take_sampled_stack(uint32_t tid, struct lt_vm *vm, struct lt_stack *stack)
{
    TABLE(struct lt_stack, host, 1);
    TABLE(struct lua_frames, lua, 1);
    take_stack(tid, vm, 0, true, host, lua, stack);
}
