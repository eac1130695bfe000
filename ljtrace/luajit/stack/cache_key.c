/* cache_key.c - read the values on which a joined stack depends, apart from words on the stacks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/stack/cache_key.h"
#include "ljtrace/luajit/base/stack_tree.h"
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/ring.h"

/* The ranges that were found to be readable since the program's code last ran: the fields of a state, a C
 * stack and a Lua stack. */
static struct {
    uint32_t turn; /* the program_turn for which this holds */
    uint64_t g;
    const struct lua_layout *layout;
    uint32_t tid;
    uint64_t c_from, c_to, lua_from, lua_to;
} s_seen;

static uint64_t load_ref(uint64_t a, bool wide)
{
    return wide ? *(const uint64_t *)a : *(const uint32_t *)a;
}

static bool find_global(const struct lt_vm *vm)
{
    const struct lua_layout *l = vm->layout;
    uint32_t last = l->vmstate > l->cur_l ? l->vmstate : l->cur_l;
    last = last > l->jit_base ? last : l->jit_base;
    s_seen.turn = program_turn;
    s_seen.g = program_readable(vm->g, last + sizeof(uint64_t)) ? vm->g : 0;
    s_seen.layout = l;
    s_seen.tid = 0;
    s_seen.lua_from = s_seen.lua_to = 0;
    return s_seen.g != 0;
}

static inline bool has_global(const struct lt_vm *vm)
{
    bool known = s_seen.turn == program_turn && s_seen.g == vm->g && s_seen.layout == vm->layout;
    return known || find_global(vm);
}

/* The running thread's stack is readable from its stack pointer upwards. */
static bool find_c_stack(uint32_t tid, uint64_t sp)
{
    s_seen.tid = tid;
    s_seen.c_to = host_stack_range(tid).end;
    s_seen.c_from = host_stack_range(tid).begin;
    return sp >= s_seen.c_from && sp + sizeof(uint64_t) <= s_seen.c_to;
}

static inline bool has_c_stack(uint32_t tid, uint64_t sp)
{
    bool known = s_seen.tid == tid && sp >= s_seen.c_from && sp + sizeof(uint64_t) <= s_seen.c_to;
    return known || find_c_stack(tid, sp);
}

static bool find_lua_stack(uint64_t from, uint64_t to)
{
    s_seen.lua_from = from;
    s_seen.lua_to = program_readable(from, to - from) ? to : from;
    return s_seen.lua_to > from;
}

static inline bool has_lua_stack(uint64_t from, uint64_t to)
{
    bool known = from == s_seen.lua_from && to == s_seen.lua_to && from < to;
    return known || find_lua_stack(from, to);
}

/* Are the fields of a thread readable? The stack's size is the last of them. */
static inline bool has_thread(uint64_t L, bool wide)
{
    const struct luajit_offsets *at = luajit_offsets(wide);
    uint32_t bytes = at->thread_size + sizeof(uint32_t);
    return (program_is_known(L, bytes) || program_readable(L, bytes)) &&
           *(const uint8_t *)(L + at->gct) == GCT_THREAD;
}

static inline void load_thread(uint64_t L, bool wide, uint64_t *w)
{
    const struct luajit_offsets *at = luajit_offsets(wide);
    w[KEY_THREAD] = L;
    w[KEY_CFRAME] = *(const uint64_t *)(L + at->thread_cframe);
    /* While a trace runs, the thread's base is not up to date. */
    w[KEY_BASE] = w[KEY_JIT] ? 0 : load_ref(L + at->thread_base, wide);
    w[KEY_FROM] = load_ref(L + at->thread_stack, wide);
    w[KEY_TO] = w[KEY_FROM] + 8 * (uint64_t) * (const uint32_t *)(L + at->thread_size);
}

/* wide: the references have 8 bytes. It is constant where this is called, and so are all offsets then. */
static inline __attribute__((always_inline)) bool get(uint32_t tid, const struct lt_vm *vm, bool wide,
                                                      struct lt_cache_key *b)
{
    const struct lua_layout *l = vm->layout;
    const struct host_here here = host_here(tid);
    uint64_t *w = b->word;
    uint64_t L;
    b->usable = false;
    if (!has_global(vm) || !(L = load_ref(vm->g + l->cur_l, wide)) || !has_thread(L, wide))
        return false;
    w[KEY_IP] = here.ip;
    w[KEY_SP] = here.sp;
    w[KEY_VM] = (uint64_t)vm;
    w[KEY_STATE] = *(const uint32_t *)(vm->g + l->vmstate);
    w[KEY_GENERATIONS] = raw_pair(lt_places_generation(), host_code_generation());
    w[KEY_TREE] = stack_tree_generation();
    w[KEY_JIT] = l->jit_base ? load_ref(vm->g + l->jit_base, wide) : 0;
    load_thread(L, wide, w);
    b->usable = has_c_stack(tid, w[KEY_SP]) && has_lua_stack(w[KEY_FROM], w[KEY_TO]);
    b->c_to = s_seen.c_to;
    return b->usable;
}

bool lt_cache_key_get(uint32_t tid, const struct lt_vm *vm, struct lt_cache_key *b)
{
    return vm->layout->gc64 ? get(tid, vm, true, b) : get(tid, vm, false, b);
}

struct lt_seen_function lt_function_see(const struct lt_vm *vm, uint64_t slot)
{
    struct lt_seen_function seen = {
        .slot = slot, .word = *(const uint64_t *)slot, .value = lt_function_at(vm, slot)};
    seen.head = lt_function_header(vm, lt_function_of(seen.word), &seen.pc);
    return seen;
}

struct lt_resumed lt_resumed_get(const struct lt_vm *vm, uint64_t L)
{
    uint64_t from = lt_vm_ref(vm, L + vm->at->thread_stack);
    return (struct lt_resumed){L, lt_vm_ref(vm, L + vm->at->thread_base),
                               program_number(L + vm->at->thread_cframe, 8), from,
                               from + 8 * (uint64_t)lt_vm_u32(L + vm->at->thread_size)};
}

bool lt_resumed_are_same(const struct lt_vm *vm, const struct lt_resumed *was, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct lt_resumed now = lt_resumed_get(vm, was[i].L);
        if (now.base != was[i].base || now.cframe != was[i].cframe || now.from != was[i].from ||
            now.to != was[i].to || !program_readable(now.from, now.to - now.from))
            return false;
    }
    return true;
}
