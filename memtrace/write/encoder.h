/* encoder.h - encodes accesses and rare events into the streams of an EVENTS chunk.
 *
 * Accesses arrive as segments and are encoded as differences from a prediction. To find the block of an address, the
 * encoder tries the predicted block first, then the block map, and the freed blocks last. It does no I/O: the writer
 * compresses the streams and calls encoder_start again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_ENCODER_H
#define MEMTRACE_WRITE_ENCODER_H

#include "memtrace/blocks/freed_blocks.h"
#include "memtrace/format/chunk.h"
#include "memtrace/format/codebook.h"
#include "memtrace/format/records.h"
#include "memtrace/write/fusion.h"

/* Size of the cache of pages that contain neither live nor freed blocks: the stack, globals... */
enum { FOREIGN_PAGES = 1024 };

struct encoder {
    struct buffer streams[EVENT_STREAMS];
    struct codebook book;
    struct fusion fusion;
    uint32_t epoch;
    uint32_t prev_line;
    struct recent recent;
    uint64_t run;   /* number of segments predicted correctly since the last token */
    uint32_t count; /* number of events in this chunk */
    uint32_t room;  /* number of tokens for which all streams have room */
    /* pages without blocks: number + 1, indexed by its low bits; 0 = empty */
    uint64_t foreign[FOREIGN_PAGES];
    uint64_t pages_made; /* sum of pages_made of both block maps when `foreign` was valid */
};

bool encoder_init(struct encoder *e);
void encoder_destroy(struct encoder *e);

/* Register the last segment of the codebook under the next segment id of the caller; false when out of memory. */
bool encoder_segment(struct encoder *e);

/* Begin a chunk whose first event is at this time. */
void encoder_start(struct encoder *e, uint64_t time);

/* The maps in which addresses are searched, and the counters. */
struct surroundings {
    const struct blockmap *live;
    const struct blockmap *unsampled; /* blocks that the sample leaves out; NULL = it is no sample */
    const struct freed_blocks *dead;
    struct mt_totals *totals; /* its `instructions` is the current time */
    uint64_t heaps;           /* number of heaps defined */
    uint64_t beside; /* maximum distance from a block of heap 0 at which an access is reported as beside it */
    /* Define a segment; false if that is not possible. */
    bool (*define)(void *writer, const struct mt_segment *s);
    void *writer;
};

/* Maximum number of accesses, or of words of a stream of segments, that are encoded by one call. */
#define ENCODE_BATCH 4096u

/* Distance in bytes of prefetching in a stream of segments. The stream is read in order, but it comes from another
 * core's cache, and the end of a segment is known only when its id has been loaded. */
enum { PREFETCH_BYTES = 4096 };

/* Encode accesses. They are counted by kind, or as accesses to freed memory, foreign, or dropped if their site was
 * never defined. When memory runs out, a stream fails (see encoder_bytes). */
void encoder_accesses(struct encoder *e, const struct surroundings *in, const uint32_t *sites,
                      const uint64_t *addrs, size_t n);

/* Encode segments, in the form that mt_writer_stream describes, until about ENCODE_BYTES are processed. Adds the
 * instructions executed to *instructions and returns the number of bytes processed. `between` may be NULL. */
#define ENCODE_BYTES ((size_t)ENCODE_BATCH * MT_STREAM_WORD)
size_t encoder_segments(struct encoder *e, const struct surroundings *in, const uint8_t *stream, size_t n,
                        uint64_t *instructions, const struct mt_between *between);

/* Encode and count a change of the state of a virtual machine. c->uncounted is not used. */
void encoder_change(struct encoder *e, const struct surroundings *in, const struct mt_change *c);

/* The stream for a rare record at the current position. The caller appends the record and counts the event. */
struct buffer *encoder_rare(struct encoder *e);

/* Add a new or moved block to the recently accessed places, because it is likely to be accessed next. */
static inline void encoder_touch(struct encoder *e, uint64_t addr, uint32_t slot)
{
    recent_add(&e->recent, addr, slot);
}

/* Total size of all streams in bytes; UINT64_MAX if one of them ran out of memory. */
uint64_t encoder_bytes(const struct encoder *e);

#endif
