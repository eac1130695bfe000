/* rollback.h - what a watched allocator does to memory is taken back from the ring. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Accesses made inside a watched allocator function are its own, not the program's. The instrumented code
 * knows nothing of this: it records as ever, between RAW_ENTER and RAW_LEAVE, and the collector would throw
 * it away. But when the function returns, most often nothing has come in between but segments, in one slab:
 * then the cursor goes back to where it was at the entry, over the RAW_ENTER as well, and the instructions of
 * those segments are counted here. The collector neither meets them nor has the ring carry them, and the next
 * records go to memory that is still in the cache. Where anything else came in between (another thread, code
 * translated for the first time, the end of a slab) RAW_LEAVE is written and the collector leaves the
 * accesses out.
 *
 * Until the return everything is in the ring, so that nothing is lost if the process ends in between.
 */
#ifndef LJTRACE_TOOL_RING_ROLLBACK_H
#define LJTRACE_TOOL_RING_ROLLBACK_H

#include "ljtrace/tool/ring/ring.h"

/* A thread's outermost call of a watched function begins; *place is for its end. While accesses are not recorded nothing
 * is done, neither here nor then. */
void lt_inside_enter(struct lt_ring_place *place);
/* It has returned, at a superblock's end: before anything about the call is told. */
void lt_inside_return(const struct lt_ring_place *place);
/* It is given up: it can not return any more. */
void lt_inside_drop(const struct lt_ring_place *place);
/* A segment was defined: the next number. instructions: those that the collector counts for it. */
void lt_inside_segment(UInt words, UInt instructions);

#endif
