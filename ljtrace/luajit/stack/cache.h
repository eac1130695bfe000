/* cache.h - a cache of joined stacks of C and Lua.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Walking both stacks and joining them costs more than all other work for an allocation, and a program
 * allocates and frees in few places again and again. A joined stack depends on what the walk has read: the
 * stack pointer and a few fields of the VM (the cache key), and words on the stacks. An entry contains all of
 * these. If all of them have the same values again, so has the stack, and no walk is needed. The values are
 * compared themselves, not only hashes of them; --check-stacks also repeats each walk and compares the
 * results.
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
bool lt_stack_cache_find(uint32_t tid, struct lt_vm *vm, size_t size, struct lt_cache_key *b,
                         struct lt_stack *stack);

/* Begin to note what a walk reads, for a new entry. */
void lt_stack_cache_begin(void);
/* The walk has read the eight bytes at this address, on one of the stacks. */
void lt_stack_cache_note(uint64_t at);
/* It has read the slot of a frame's function. With 4-byte references the slot is the whole frame. */
void lt_stack_cache_note_function(uint64_t slot);
/* It continues with another thread, which has resumed the one before: its stack and base count too. */
void lt_stack_cache_note_thread(uint64_t L);
/* It has found a C frame with this code address: the return address below sp must be the address after it. */
void lt_stack_cache_note_return(uint64_t sp, uint64_t ip);
/* It needed no more than this many links of the Lua stack. */
void lt_stack_cache_cut(uint32_t frames);
/* Its result depends on something that cannot be noted: do not make an entry. */
void lt_stack_cache_give_up(void);
/* The walk is complete: it has joined the C stack `host` into `stack`. Make an entry and write the stack into
 * the ring under the entry's number. */
void lt_stack_cache_keep(struct lt_cache_key *b, const struct lt_vm *vm, size_t size,
                         const struct lt_stack *host, struct lt_stack *stack);
/* For --check-stacks: is this the stack of the entry with that id? */
bool lt_stack_cache_is(uint32_t id, const struct lt_stack *stack);

#endif
