/* cache_key.h - the values on which a joined stack depends, apart from words on the stacks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * The key is read for each heap event of a Lua state, so this has to be fast. Whether its fields are readable
 * is checked only once each time that the program's code has run (ljtrace/luajit/base/program_memory.h).
 */
#ifndef LJTRACE_LUAJIT_STACK_CACHE_KEY_H
#define LJTRACE_LUAJIT_STACK_CACHE_KEY_H

#include "ljtrace/luajit/core/states.h"
#include <stdbool.h>
#include <stdint.h>

/* The words of a key: code address, stack pointer, VM state, thread, the thread's base, stack and C frame,
 * how often code and prototypes were forgotten, and the base of the running trace. */
enum {
    KEY_IP,
    KEY_SP,
    KEY_VM,
    KEY_STATE,
    KEY_THREAD,
    KEY_BASE,
    KEY_FROM,
    KEY_TO,
    KEY_CFRAME,
    KEY_GENERATIONS,
    KEY_JIT,
    KEY_WORDS
};

/* A cache key. */
struct lt_cache_key {
    uint64_t word[KEY_WORDS];
    /* The upper end of the C stack, which is readable from the stack pointer up to here. */
    uint64_t c_to;
    uint64_t place; /* hash of the code that allocates */
    uint64_t hash;  /* of the stack, as cache.c makes it */
    bool usable;    /* False: the stack cannot be cached */
};

/* Read the key for the stack of thread `tid`, in which code of the state has been called. Returns b->usable.
 * If it is true, the Lua stack is readable too. */
bool lt_cache_key_get(uint32_t tid, const struct lt_vm *vm, struct lt_cache_key *b);

static inline bool lt_on_c_stack(const struct lt_cache_key *b, uint64_t at)
{
    return at >= b->word[KEY_SP] && at + sizeof(uint64_t) <= b->c_to;
}

static inline bool lt_on_lua_stack(const struct lt_cache_key *b, uint64_t at)
{
    return at >= b->word[KEY_FROM] && at + sizeof(uint64_t) <= b->word[KEY_TO];
}

/* The base of the innermost Lua frame. */
static inline uint64_t lt_base_of(const struct lt_cache_key *b)
{
    return b->word[b->word[KEY_JIT] ? KEY_JIT : KEY_BASE];
}

#endif
