/* stack.h - locks from call stacks: a block is locked while a function that touches it is on the stack.
 *
 * A memtrace has the functions that make each access (functions.h: of C by the site, of Lua by the instruction), and
 * the whole stack of each New, Free and Resize. An access by function f in thread t pins the block to (t, f). The
 * pin is removed before the first later New, Free or Resize of t whose stack does not contain f, because only then
 * is it known that f has returned. The Lua function that t runs counts as being on the stack, and so does the
 * collector while t's virtual machine is in its state. A block is locked while it has pins of any threads.
 *
 * These are the shortest locks that certainly include the true time on the stack. Recursion, functions that cannot be
 * distinguished, and the time between a return and the next heap operation make them longer. Unknown code counts as
 * having returned at the next heap operation. An empty stack removes no pins. Frames beyond the recorder's
 * --stack-depth seem to have returned.
 *
 * Heap operations are written as in memtrace/ops/source.h (a Resize as F and N; the new block has no pins).
 * Amortised O(1) for an access while few functions touch one block between heap operations; O(stack depth)
 * for a heap operation. Memory: O(live blocks + pins + threads x names).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STEVE_KERNELS_LOCKS_STACK_H
#define STEVE_KERNELS_LOCKS_STACK_H

#include "memtrace/memtrace.h"
#include "memtrace/ops.h"
#include "steve/kernels/locks/functions.h"

struct lockstack_pin {
    uint32_t function, slot;
    uint32_t scope_before, scope_after; /* of the same function and thread; numbers + 1 */
    uint32_t block_before, block_after; /* of the same block */
    uint16_t thread;
};

struct lockstack_block {
    uint64_t handle;
    uint32_t pins; /* number + 1 of the first; 0 = unlocked */
    bool live;
};

struct lockstack_scope {
    uint32_t pins;
    bool listed;
};

struct lockstack_thread {
    struct lockstack_scope *scopes; /* by function */
    size_t scopes_room;
    uint32_t *active; /* functions that may have pins */
    size_t n_active, active_room;
};

struct lockstack {
    const struct mt_reader *reader;
    struct functions functions;
    struct lockstack_pin *pins;
    size_t n_pins, pins_room;
    uint32_t spare;                 /* number + 1 of a pin that is not used */
    struct lockstack_block *blocks; /* by slot */
    size_t blocks_room;
    struct lockstack_thread *threads;
    size_t threads_room;
    uint64_t *seen; /* by function: number of the last heap operation whose stack had it */
    size_t seen_room;
    uint64_t heap_operations, next_handle;
    uint64_t *due; /* handles to unlock */
    size_t n_due, due_room;
    uint64_t now;   /* number of the operation at hand */
    struct op *out; /* what the last lockstack_feed made, and before which operation */
    uint64_t *at;
    size_t n_out, out_room, at_room;
    uint64_t locks, unlocks;
    bool unlock_before_free;
};

/* reader: the one that the events come from. False when out of memory; lockstack_free is still needed. */
bool lockstack_init(struct lockstack *l, const struct mt_reader *reader, bool unlock_before_free);
void lockstack_free(struct lockstack *l);
/* shown: the n events, or as many with those hidden that do not count (steve/kernels/base/walk.h), or NULL: none of
 * them counts. The others are still needed to follow the instructions of Lua. False when out of memory. */
bool lockstack_feed(struct lockstack *l, const struct mt_event *events, const struct mt_event *shown,
                    size_t n);

#endif
