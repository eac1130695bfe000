/* rollback.h - remove the accesses of a watched allocator from the ring. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Accesses inside a watched allocator function are its own, not the program's. Instrumented code does not
 * know this. It records them as usual, between RAW_ENTER and RAW_LEAVE, and the collector would drop them.
 * But when the function returns, usually only segments were written since its entry, all in one slab. In this
 * case the cursor is moved back to where it was at the entry, which removes the RAW_ENTER as well, and the
 * instructions of the segments are counted here. So neither the ring nor the collector has work with them,
 * and the next records are written to memory that is still in the cache.
 *
 * If something else was written in between (by another thread, by the translation of new code, at the end of
 * a slab), RAW_LEAVE is written, and the collector drops the accesses. Until the return all records remain in
 * the ring, so nothing is lost if the process ends inside the function.
 */
#ifndef LJTRACE_VALGRIND_RING_ROLLBACK_H
#define LJTRACE_VALGRIND_RING_ROLLBACK_H

#include "ljtrace/valgrind/ring/ring.h"

/* A thread's outermost call of a watched function begins. *place has to be passed at its end. If accesses are
 * not recorded, nothing is done, here or there. */
void lt_rollback_enter(struct lt_ring_place *place);
/* The call has returned. Call this at a superblock's end, before the event of the call is written. */
void lt_rollback_return(const struct lt_ring_place *place);
/* The call is dropped: it cannot return any more. */
void lt_rollback_drop(const struct lt_ring_place *place);
/* A segment was defined, with the next number. instructions: the number that the collector counts for it. */
void lt_rollback_segment(UInt words, UInt instructions);

#endif
