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
 * how often code, prototypes and the numbers of stacks were forgotten, and the base of the running trace. */
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
    KEY_TREE,
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

/* -- what a stack depends on besides -- */

/* The type of a function object, the number of a built-in function, and the number of upvalues; *pc is the
 * address of its bytecode. */
static inline uint32_t lt_function_header(const struct lt_vm *vm, uint64_t function, uint64_t *pc)
{
    const struct luajit_offsets *at = vm->at;
    if (!program_is_known(function, at->func_pc + sizeof(uint64_t))) {
        *pc = lt_vm_ref(vm, function + at->func_pc);
        return (uint32_t)program_number(function + at->gct - 1, 4) >> 8;
    }
    *pc = vm->layout->gc64 ? *(const uint64_t *)(function + at->func_pc)
                           : *(const uint32_t *)(function + at->func_pc);
    return *(const uint32_t *)(function + at->gct - 1) >> 8;
}

/* The function in a slot, where references have 8 bytes: the bits above are the type of the value. */
static inline uint64_t lt_function_of(uint64_t word)
{
    return word & (((uint64_t)1 << 47) - 1);
}

/* What identifies a frame's function: its bytecode if it was created at run time, since closures are
 * short-lived, else the object. With 4-byte references the slot contains the frame's link as well. */
static inline uint64_t lt_function_at(const struct lt_vm *vm, uint64_t slot)
{
    uint64_t word = *(const uint64_t *)slot;
    bool wide = vm->layout->gc64;
    uint64_t pc, f = wide ? lt_function_of(word) : (uint32_t)word;
    uint32_t head = lt_function_header(vm, f, &pc), kind = head & 0xffff, built_in = head >> 8 & 0xff;
    bool made = (head & 0xff) == GCT_FUNC && (built_in == 0 || (built_in > 1 && head >> 16));
    uint64_t what = made ? pc | 1 : f;
    return wide ? what ^ (uint64_t)kind << 48 : what | word >> 32 << 32;
}

/* A function as it was seen in a slot, for a comparison that is shorter than lt_function_at. Only where references have 8
 * bytes. */
struct lt_seen_function {
    uint64_t slot, word, pc, value; /* value: lt_function_at */
    uint32_t head;
};

struct lt_seen_function lt_function_see(const struct lt_vm *vm, uint64_t slot);

/* Is the function in the slot the same? It must be one that a frame of the stack executes. */
static inline bool lt_function_is_same(const struct lt_vm *vm, const struct lt_seen_function *seen)
{
    const struct luajit_offsets *at = luajit_offsets(true);
    const uint64_t word = *(const uint64_t *)seen->slot, f = lt_function_of(word);
    if (word == seen->word && *(const uint64_t *)(f + at->func_pc) == seen->pc &&
        *(const uint32_t *)(f + at->gct - 1) >> 8 == seen->head)
        return true;
    return lt_function_at(vm, seen->slot) == seen->value;
}

/* A thread that has resumed another one, and its stack. */
struct lt_resumed {
    uint64_t L, base, cframe, from, to;
};

struct lt_resumed lt_resumed_get(const struct lt_vm *vm, uint64_t L);
/* Are the threads' stacks where they were, with the same frames? Then they are readable. */
bool lt_resumed_are_same(const struct lt_vm *vm, const struct lt_resumed *was, uint32_t n);

#endif
