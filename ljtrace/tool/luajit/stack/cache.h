/* cache.h - joined stacks of C and Lua that were met before. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Walking both stacks and joining them costs more than all else about an allocation, and the few places where
 * a program allocates and frees come again and again. A stack is a function of what has been read for it: the
 * stack pointer and a few fields of the machine (its basis), and words on the stacks. All these are kept with
 * the stack; where all of them read the same again, so is the stack, and no walk is needed. Nothing is taken
 * for equal that was not compared; --check-stacks walks nevertheless and compares.
 *
 * A frame's function counts by its bytecode, since closures come and go. Names were given when frames were
 * first met, and prototypes that die end all memos (lt_places_generation).
 */
#ifndef LJTRACE_TOOL_LUAJIT_STACK_CACHE_H
#define LJTRACE_TOOL_LUAJIT_STACK_CACHE_H

#include "ljtrace/tool/luajit/stack/cache_key.h"
#include "ljtrace/tool/stacks/unwind.h"

/* The stack of a call of the allocator that was met before, of a block of `size` bytes (0 = none is made);
 * False if there is none such. Sets vm->asking. */
Bool lt_memo_find(ThreadId tid, struct lt_vm *vm, SizeT size, struct lt_basis *b, struct lt_stack *stack);

/* A walk begins that is to be remembered. */
void lt_memo_begin(void);
/* It has read the eight bytes there, on one of the stacks. */
void lt_memo_note(Addr at);
/* It has read the slot of a frame's function; with 4-byte references that is the whole frame. */
void lt_memo_note_function(Addr slot);
/* It goes on with another thread, one that resumed: from where the thread's base is. */
void lt_memo_note_thread(Addr L);
/* It has found the frame of this code address there: the return address just below must be behind it. */
void lt_memo_note_return(Addr sp, Addr ip);
/* It needed no more than so many links of Lua's stack. */
void lt_memo_cut(UInt frames);
/* It has come to depend on something else. */
void lt_memo_give_up(void);
/* It has led from the C stack `host` to this stack: remember that, and tell it to the collector. */
void lt_memo_keep(const struct lt_basis *b, const struct lt_vm *vm, SizeT size, const struct lt_stack *host,
                  struct lt_stack *stack);
/* For --check-stacks: is the stack with that id this one? */
Bool lt_memo_is(UInt id, const struct lt_stack *stack);

#endif
