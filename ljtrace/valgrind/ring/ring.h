/* ring.h - the tool's end of the ring: create it, write to it, hand over slabs.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * There is one ring for each traced process. Instrumented code appends to it directly, through the cursor in
 * the shared header (ljtrace/valgrind/instrument/instrument.c), and calls lt_ring_make_room when a slab is full.
 * All rarer records are written by HOST_PUT. When the collector is gone, the records are
 * discarded and the program continues.
 */
#ifndef LJTRACE_VALGRIND_RING_RING_H
#define LJTRACE_VALGRIND_RING_RING_H

#include "ljtrace/luajit/host.h"
#include "ljtrace/protocol/ring.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"

/* Create the ring and start the collector, which writes to `out`. On failure, the user is informed why, and
 * records are discarded. TAKEN: `out` contains the trace of an earlier image of this process; try another
 * name. BUSY: another process is writing to `out`. */
enum lt_start { LT_START_OK, LT_START_TAKEN, LT_START_BUSY, LT_START_FAILED };
enum lt_start lt_ring_start(const HChar *out);

/* The shared header; never NULL after lt_ring_start. */
extern struct ring_header *lt_ring;

/* Write a segment, its number and its words, as generated code does. */
void lt_ring_put_segment(UInt number, const uint64_t *words, UInt n);
/* Write RAW_VM: the VM whose state is in this word is in this state now. */
void lt_ring_put_state(Addr word, Int state);
/* Ask the collector for a line about the state of the recording. snapshot: after it has written all events so
 * far to the file. */
const HChar *lt_ring_report(Bool snapshot);

/* A place in the ring. The cursor can be moved back to it as long as its slab is the current one. */
struct lt_ring_place {
    Addr at;
    ULong slab; /* number of the slab since the start; slabs are reused */
};
/* The place where the next record will be written. */
struct lt_ring_place lt_ring_here(void);
/* The address of a place; NULL = its slab was handed over. */
const UChar *lt_ring_at(const struct lt_ring_place *place);
/* Move the cursor back to a place, which removes all records after it. */
void lt_ring_rewind(const struct lt_ring_place *place);

/* Hand over the current slab and continue with the next free one. */
void lt_ring_flush(void);
/* The same, and wait until the collector has consumed all records. */
void lt_ring_drain(void);
/* Like lt_ring_flush if the slab is full. Called from generated code when the cursor has reached the
 * limit. */
void lt_ring_make_room(void);
/* Reserve room for `bytes` bytes at the cursor, which the caller fills... */
static inline raw_word *lt_ring_reserve(UInt bytes)
{
    tl_assert(bytes <= RING_MARGIN_BYTES);
    if (lt_ring->cursor >= lt_ring->limit)
        lt_ring_make_room();
    return (raw_word *)lt_ring->cursor;
}
/* ... and append them to the ring. */
static inline void lt_ring_commit(UInt bytes)
{
    __asm__ volatile("" ::: "memory");
    lt_ring->cursor += bytes;
    if (lt_ring->cursor >= lt_ring->limit)
        lt_ring_flush();
}
/* Call f before the next superblock that records, or before the next record, whichever comes first. Something
 * that is noticed in the middle of a segment can only be written into the ring then. */
void lt_ring_call_back(void (*f)(void));

/* Memory for another ring, as a descriptor; negative on failure. */
Int lt_make_ring_memory(void);
/* Before a fork: hand over all records so far, then the child's memory and socket. */
void lt_ring_announce_fork(Int memfd, Int socket);
/* After a fork, in the child: continue with the child's ring and a file of that name... */
void lt_ring_adopt(Int memfd, Int socket, const HChar *name);
/* ... or disconnect from the parent's ring and discard all records from here on. */
void lt_ring_abandon(void);
/* After a failed start: discard all records. Returns false if there is not even memory for that. */
Bool lt_ring_do_without(void);

/* Hand over the remaining records and wait until the collector has finished the file. Returns false, after a
 * message to the user, if the file is not complete. */
Bool lt_ring_finish(UInt ending);

/* Is anything recorded? Not if the collector is gone. */
Bool lt_ring_alive(void);

/* -- records -- */

/* HOST_PUT (ljtrace/luajit/host.h) appends a record. ring_put_NAME (ljtrace/protocol/put.h) is inline, for heap events. */

#define RING_RESERVE(bytes) lt_ring_reserve(bytes)
#define RING_COMMIT(bytes) lt_ring_commit(bytes)
#define RING_COPY(to, from, n) VG_(memcpy)(to, from, n)
#include "ljtrace/protocol/put.h"

/* -- are accesses recorded now? -- */

/* Are accesses recorded? Not with --trace-mem=no, nor after the file has reached --max-size. */
Bool lt_accesses_recorded(void);
/* Call before code of the program runs. Has the file become full, or is it now another one that is not full
 * (a forked child's)? Then all code is translated again, without or with the recording of accesses. */
void lt_accesses_follow_ring(void);

/* -- facts -- */

/* Write a fact. */
void lt_put_info(const HChar *key, const HChar *value);
/* Write a fact whose value is a number. */
void lt_put_number(const HChar *key, ULong n);

/* -- take back the accesses of a watched allocator -- */

/* Accesses inside a watched allocator function are its own, not the program's. Instrumented code does not
 * know this. It records them as usual, between RAW_ENTER and RAW_LEAVE, and the collector would drop them.
 * But when the function returns, usually only segments were written since its entry, all in one slab. In this
 * case the cursor is moved back to where it was at the entry, which removes the RAW_ENTER as well, and the
 * instructions of the segments are counted here. So neither the ring nor the collector has work with them,
 * and the next records are written to memory that is still in the cache.
 *
 * If something else was written in between (by another thread, by the translation of new code, at the end of
 * a slab), RAW_LEAVE is written, and the collector drops the accesses. Until the return all records remain in
 * the ring, so nothing is lost if the process ends inside the function. */

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
