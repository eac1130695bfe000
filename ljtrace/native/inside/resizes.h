/* resizes.h - calls that are resizing a block, by allocators that may wait for locks of the program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Such a call frees its block before it returns, and another thread may get the memory at once. The ring cannot be locked
 * meanwhile: the allocator may wait for a thread that waits for the ring. So the call is noted. If another thread's block
 * begins where the old one was, the free of that is recorded first, and the call will have made a new block.
 */
#ifndef LJTRACE_NATIVE_INSIDE_RESIZES_H
#define LJTRACE_NATIVE_INSIDE_RESIZES_H

#include "ljtrace/native/inside/events.h"

/* The call of e begins. Returns its number; 0 = it is not recorded, or there are too many. */
uint32_t native_resize_begin(const struct native_event *e, const struct native_registers *from);
/* The call has returned: what is left of its event. Only while the ring is locked. */
void native_resize_end(struct native_event *e);
/* It has returned, and is not recorded. */
void native_resize_drop(uint32_t number);
/* A block is about to begin at this address: end the one that a call has freed there. Returns false if there is none. e and
 * stack: the event to record. Only while the ring is locked. */
bool native_resize_give_up(uint64_t addr, struct native_event *e, struct raw_stack *stack);
/* This is a forked child, or another recording: no call is noted. */
void native_resizes_anew(void);

#endif
