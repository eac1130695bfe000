/* cache.h - a cache of joined stacks of C and Lua.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Walking both stacks and joining them costs more than all other work for an allocation, and a program
 * allocates and frees in few places again and again. A joined stack depends on what the walk has read: the
 * stack pointer and a few fields of the VM (the cache key), and words on the stacks. An entry contains all of
 * these. If all of them have the same values again, so has the stack, and no walk is needed. The values are
 * compared themselves, not only hashes of them; --check-stacks also repeats each walk and compares the
 * results. Most stacks are found before by what has changed since the latest one (latest.h); the cache is for those that
 * are cut, and for coroutines by turns.
 *
 * A frame's function is represented by its bytecode, because closures are short-lived. Names were written
 * when a frame was first seen; a freed prototype makes all entries invalid (lt_places_generation).
 */
#ifndef LJTRACE_LUAJIT_STACK_CACHE_H
#define LJTRACE_LUAJIT_STACK_CACHE_H

#include "ljtrace/luajit/base/call_stack.h"
#include "ljtrace/luajit/stack/cache_key.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Look for the stack of a call of the allocator that requests `size` bytes (0 = none). Returns false if it is
 * not in the cache. Sets vm->allocating. */
bool lt_stack_cache_find(struct lt_vm *vm, size_t size, struct lt_cache_key *b, struct lt_stack *stack);

/* A walk is complete, and what it has noted (notes.h) does not fit into the array of the latest stack: keep its stack, which
 * is this node, in an entry. */
void lt_stack_cache_keep(struct lt_cache_key *b, const struct lt_vm *vm, size_t size, uint32_t node);

#endif
