/* cache_key.h - what a joined stack depends on but words on the stacks. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * It is read anew for each heap event of a Lua state, so it is read at once: where its fields are is checked
 * once for each time that the program's code runs on (ljtrace/tool/base/guest_memory.h), and then they are loaded.
 */
#ifndef LJTRACE_TOOL_LUAJIT_STACK_CACHE_KEY_H
#define LJTRACE_TOOL_LUAJIT_STACK_CACHE_KEY_H

#include "ljtrace/tool/luajit/core/states.h"

/* The words of a basis: code address, stack pointer, state of the machine, its thread with its base, stack
 * and frame in C, how often code and prototypes went away, base of the trace that runs. */
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

struct lt_basis {
    UWord word[BASIS_WORDS];
    Addr c_to;   /* where the C stack ends, readable from the stack pointer up */
    UWord place; /* hash of the code that asks */
    Bool usable; /* False: the stack can not be remembered */
};

/* The basis of the stack of thread `tid`, in which code of the state is called; b->usable. Lua's stack, too,
 * is readable then. */
Bool lt_basis_get(ThreadId tid, const struct lt_vm *vm, struct lt_basis *b);

static inline Bool lt_on_c_stack(const struct lt_basis *b, Addr at)
{
    return at >= b->word[BASIS_SP] && at + sizeof(Addr) <= b->c_to;
}

static inline Bool lt_on_lua_stack(const struct lt_basis *b, Addr at)
{
    return at >= b->word[BASIS_FROM] && at + sizeof(Addr) <= b->word[BASIS_TO];
}

/* Where Lua's uppermost frame is. */
static inline Addr lt_base_of(const struct lt_basis *b)
{
    return b->word[b->word[BASIS_JIT] ? BASIS_JIT : BASIS_BASE];
}

#endif
