/* stack.h - locks from call stacks: a block is locked while a function that touches it is on the stack.
 *
 * What a memtrace tells: the functions that make each access (functions.h: of C by the access's site, of Lua
 * by the instruction), and the whole stack of each New, Free and Resize. So an access by function f in thread
 * t pins the block to (t, f), and the pin is taken away before the first later New, Free or Resize of t whose
 * stack does not contain f: only then is it known that f has returned. The function of Lua that t runs then
 * counts as on the stack, and the collector while t's virtual machine is in that state. A block is locked
 * while it has pins, of whichever threads. This is the least that is certain to cover the true time on the
 * stack at the grain of heap operations: recursion, two functions that cannot be told apart, and time between
 * the return and the next heap operation all lengthen it. Code of which nothing is known counts as returned
 * by the next heap operation. An empty stack tells nothing, and takes no pin away. Frames beyond the
 * recorder's
 * --stack-depth look as if they had returned.
 *
 * Heap operations come out as in memtrace/ops/source.h (a Resize as F and N; the new block has no pins).
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

/* reader: the one that the events come from. False when out of memory; free it then, too. */
bool lockstack_init(struct lockstack *l, const struct mt_reader *reader, bool unlock_before_free);
void lockstack_free(struct lockstack *l);
/* shown: the n events, or as many with those hidden that do not count (steve/kernels/base/walk.h), or NULL: none of them counts.
 * What does not count still tells which instructions of Lua run. False when out of memory. */
bool lockstack_feed(struct lockstack *l, const struct mt_event *events, const struct mt_event *shown,
                    size_t n);

#endif
