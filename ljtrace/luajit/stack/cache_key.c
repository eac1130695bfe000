/* cache_key.c - read the values on which a joined stack depends, apart from words on the stacks. (host side, no libc)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/luajit/stack/cache_key.h"
#include "ljtrace/luajit/core/names.h"
#include "ljtrace/protocol/ring.h"
#include "ljtrace/valgrind/base/options.h"
#include "ljtrace/valgrind/stacks/unwind.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"

/* The ranges that were found to be readable since the program's code last ran: the fields of a state, a C
 * stack and a Lua stack. */
static struct {
    UInt turn; /* the lt_guest_turn for which this holds */
    Addr g;
    const struct lua_layout *layout;
    ThreadId tid;
    Addr c_from, c_to, lua_from, lua_to;
} s_seen;

static Addr load_ref(Addr a, Bool wide)
{
    return wide ? *(const Addr *)a : *(const UInt *)a;
}

static Bool find_global(const struct lt_vm *vm)
{
    const struct lua_layout *l = vm->layout;
    UInt last = l->vmstate > l->cur_l ? l->vmstate : l->cur_l;
    last = last > l->jit_base ? last : l->jit_base;
    s_seen.turn = lt_guest_turn;
    s_seen.g = lt_guest_readable(vm->g, last + sizeof(Addr)) ? vm->g : 0;
    s_seen.layout = l;
    s_seen.tid = VG_INVALID_THREADID;
    s_seen.lua_from = s_seen.lua_to = 0;
    return s_seen.g != 0;
}

static inline Bool has_global(const struct lt_vm *vm)
{
    Bool known = s_seen.turn == lt_guest_turn && s_seen.g == vm->g && s_seen.layout == vm->layout;
    return known || find_global(vm);
}

/* The running thread's stack is readable from its stack pointer upwards. */
static Bool find_c_stack(ThreadId tid, Addr sp)
{
    s_seen.tid = tid;
    s_seen.c_to = VG_(thread_get_stack_max)(tid);
    s_seen.c_from = s_seen.c_to - VG_(thread_get_stack_size)(tid);
    return sp >= s_seen.c_from && sp + sizeof(Addr) <= s_seen.c_to;
}

static inline Bool has_c_stack(ThreadId tid, Addr sp)
{
    Bool known = s_seen.tid == tid && sp >= s_seen.c_from && sp + sizeof(Addr) <= s_seen.c_to;
    return known || find_c_stack(tid, sp);
}

static Bool find_lua_stack(Addr from, Addr to)
{
    s_seen.lua_from = from;
    s_seen.lua_to = lt_guest_readable(from, to - from) ? to : from;
    return s_seen.lua_to > from;
}

static inline Bool has_lua_stack(Addr from, Addr to)
{
    Bool known = from == s_seen.lua_from && to == s_seen.lua_to && from < to;
    return known || find_lua_stack(from, to);
}

/* Are the fields of a thread readable? The stack's size is the last of them. */
static inline Bool has_thread(const struct lt_vm *vm, Addr L)
{
    UInt bytes = vm->at->thread_size + sizeof(UInt);
    return (lt_guest_is_known(L, bytes) || lt_guest_readable(L, bytes)) &&
           *(const UChar *)(L + vm->at->gct) == GCT_THREAD;
}

static inline void load_thread(const struct lt_vm *vm, Addr L, Bool wide, UWord *w)
{
    const struct luajit_offsets *at = vm->at;
    w[KEY_THREAD] = L;
    w[KEY_CFRAME] = *(const Addr *)(L + at->thread_cframe);
    /* While a trace runs, the thread's base is not up to date. */
    w[KEY_BASE] = w[KEY_JIT] ? 0 : load_ref(L + at->thread_base, wide);
    w[KEY_FROM] = load_ref(L + at->thread_stack, wide);
    w[KEY_TO] = w[KEY_FROM] + 8 * (Addr) * (const UInt *)(L + at->thread_size);
}

Bool lt_cache_key_get(ThreadId tid, const struct lt_vm *vm, struct lt_cache_key *b)
{
    const struct lua_layout *l = vm->layout;
    Bool wide = l->gc64;
    UWord *w = b->word;
    Addr L;
    b->usable = False;
    if (!has_global(vm) || !(L = load_ref(vm->g + l->cur_l, wide)) || !has_thread(vm, L))
        return False;
    w[KEY_IP] = VG_(get_IP)(tid);
    w[KEY_SP] = VG_(get_SP)(tid);
    w[KEY_VM] = (UWord)vm;
    w[KEY_STATE] = *(const UInt *)(vm->g + l->vmstate);
    w[KEY_GENERATIONS] = raw_pair(lt_places_generation(), lt_frames_generation());
    w[KEY_JIT] = l->jit_base ? load_ref(vm->g + l->jit_base, wide) : 0;
    load_thread(vm, L, wide, w);
    b->usable = has_c_stack(tid, w[KEY_SP]) && has_lua_stack(w[KEY_FROM], w[KEY_TO]);
    b->c_to = s_seen.c_to;
    return b->usable;
}
