/* cache_key.h - the values on which a joined stack depends, apart from words on the stacks. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The key is read for each heap event of a Lua state, so this has to be fast. Whether its fields are readable
 * is checked only once each time that the program's code has run (ljtrace/tool/base/guest_memory.h).
 */
#ifndef LJTRACE_TOOL_LUAJIT_STACK_CACHE_KEY_H
#define LJTRACE_TOOL_LUAJIT_STACK_CACHE_KEY_H

#include "ljtrace/tool/luajit/core/states.h"

/* The words of a key: code address, stack pointer, VM state, thread, the thread's base, stack and C frame,
 * how often code and prototypes were forgotten, and the base of the running trace. */
enum {
    BASIS_IP,
    BASIS_SP,
    BASIS_VM,
    BASIS_STATE,
    BASIS_THREAD,
    BASIS_BASE,
    BASIS_FROM,
    BASIS_TO,
    BASIS_CFRAME,
    BASIS_GENERATIONS,
    BASIS_JIT,
    BASIS_WORDS
};

/* A cache key. */
struct lt_basis {
    UWord word[BASIS_WORDS];
    /* The upper end of the C stack, which is readable from the stack pointer up to here. */
    Addr c_to;
    UWord place; /* hash of the code that allocates */
    Bool usable; /* False: the stack cannot be cached */
};

/* Read the key for the stack of thread `tid`, in which code of the state has been called. Returns b->usable.
 * If it is true, the Lua stack is readable too. */
Bool lt_basis_get(ThreadId tid, const struct lt_vm *vm, struct lt_basis *b);

static inline Bool lt_on_c_stack(const struct lt_basis *b, Addr at)
{
    return at >= b->word[BASIS_SP] && at + sizeof(Addr) <= b->c_to;
}

static inline Bool lt_on_lua_stack(const struct lt_basis *b, Addr at)
{
    return at >= b->word[BASIS_FROM] && at + sizeof(Addr) <= b->word[BASIS_TO];
}

/* The base of the innermost Lua frame. */
static inline Addr lt_base_of(const struct lt_basis *b)
{
    return b->word[b->word[BASIS_JIT] ? BASIS_JIT : BASIS_BASE];
}

#endif
