/* ring.h - the tool's end of the ring: setting it up, filling it, giving it away. (host side)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * One ring for each traced process. Instrumented code appends to it by itself through the cursor in the
 * shared header (ljtrace/tool/instrument/instrument.c) and calls lt_ring_make_room when a slab is full; everything rarer goes
 * through the functions of records.h. When the collector is gone, the ring swallows: the program runs on, nothing is kept.
 */
#ifndef LJTRACE_TOOL_RING_RING_H
#define LJTRACE_TOOL_RING_RING_H

#include "ljtrace/protocol/ring.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"

/* Make the ring and start the collector, which writes to `out`. On failure says why; the ring then swallows
 * everything. Taken: `out` holds the trace of this process's image before its exec; try another name.
 * Busy: another process is writing it. */
enum lt_start { LT_START_OK, LT_START_TAKEN, LT_START_BUSY, LT_START_FAILED };
enum lt_start lt_ring_start(const HChar *out);

/* The shared header; never NULL after lt_ring_start. */
extern struct ring_header *lt_ring;

/* The segment of that number and its words, as generated code puts them there. */
void lt_ring_put_segment(UInt number, const uint64_t *words, UInt n);
/* RAW_VM: the machine whose state is in this word is in that state now. */
void lt_ring_put_state(Addr word, Int state);
/* What the collector has to say about the state of the recording, one line; with `snapshot` after it has put
 * all events so far into the file. */
const HChar *lt_ring_report(Bool snapshot);

/* A place in the ring to which it may be taken back while its slab is the one being written. */
struct lt_ring_place {
    Addr at;
    ULong slab; /* counted from the start: slabs are used again */
};
/* Where the next record will be put. */
struct lt_ring_place lt_ring_here(void);
/* What was put there; NULL = that slab has been given away. */
const UChar *lt_ring_at(const struct lt_ring_place *place);
/* Take back all that was put there and behind it. */
void lt_ring_rewind(const struct lt_ring_place *place);

/* Give the current slab away and go on with the next free one. */
void lt_ring_flush(void);
/* The same, and wait until the collector has taken all that was put. */
void lt_ring_drain(void);
/* As lt_ring_flush if the slab is full. Called from generated code when the cursor has reached the limit. */
void lt_ring_make_room(void);
/* Room for so many bytes at the cursor, to be filled... */
static inline raw_word *lt_ring_reserve(UInt bytes)
{
    tl_assert(bytes <= RING_MARGIN_BYTES);
    if (lt_ring->cursor >= lt_ring->limit)
        lt_ring_make_room();
    return (raw_word *)lt_ring->cursor;
}
/* ... and given to the collector. */
static inline void lt_ring_commit(UInt bytes)
{
    __asm__ volatile("" ::: "memory");
    lt_ring->cursor += bytes;
    if (lt_ring->cursor >= lt_ring->limit)
        lt_ring_flush();
}
/* Have f called before the next superblock that records, or the next record, whichever comes first: what is
 * found in the midst of a segment can be put into the ring only then. */
void lt_ring_call_back(void (*f)(void));

/* Memory for another ring; negative on failure. */
Int lt_make_ring_memory(void);
/* Before a fork: everything so far goes to the collector, and then the child's memory and socket. */
void lt_ring_announce_fork(Int memfd, Int socket);
/* After a fork, in the child: go on with the child's ring, into a file of that name... */
void lt_ring_adopt(Int memfd, Int socket, const HChar *name);
/* ... or cut all ties to the parent's and swallow from here on. */
void lt_ring_abandon(void);
/* After a start that failed: swallow all that comes. False if there is no memory even for that. */
Bool lt_ring_do_without(void);

/* Send what is left and wait until the collector has finished the file. False if it is not whole: that has
 * been said then. */
Bool lt_ring_finish(UInt ending);

/* False once nothing is recorded any more (no collector). */
Bool lt_ring_alive(void);

#endif
