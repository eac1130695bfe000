/* encoder.h - the EVENTS chunk being made: segments coded against the predictor, rare records between.
 *
 * Knows segments, slots and offsets; which block an address belongs to it asks the block map, trying the
 * predicted block first, and the freed blocks last. Does no I/O: the writer compresses the streams and calls
 * encoder_start again.
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

/* Pages remembered to hold neither live nor dead blocks: the stack, globals... */
enum { FOREIGN_PAGES = 1024 };

struct encoder {
    struct buffer streams[EVENT_STREAMS];
    struct codebook book;
    struct fusion fusion;
    uint32_t epoch;
    uint32_t prev_line;
    struct recent recent;
    uint64_t run;                    /* segments guessed right since the last token */
    uint32_t count;                  /* events in this chunk */
    uint32_t room;                   /* tokens for which all streams have room */
    uint64_t foreign[FOREIGN_PAGES]; /* page number + 1 by its low bits; 0 = none */
    uint64_t pages_made;             /* of both maps when that was so */
};

bool encoder_init(struct encoder *e);
void encoder_destroy(struct encoder *e);

/* The codebook's last segment is one of the callers', its next; false when out of memory. */
bool encoder_segment(struct encoder *e);

/* Begin a chunk at this guest time. */
void encoder_start(struct encoder *e, uint64_t time);

/* Where accesses are looked for, and where they are counted. */
struct surroundings {
    const struct blockmap *live;
    const struct freed_blocks *dead;
    struct mt_totals *totals; /* its `instructions` is the time now */
    uint64_t heaps;           /* that are defined */
    uint64_t beside;          /* how far from a block of heap 0 an access is said to be near it */
    /* Define a segment; false if that cannot be. */
    bool (*define)(void *writer, const struct mt_segment *s);
    void *writer;
};

/* Most accesses, or words of a stream of segments, that are coded at once. */
#define ENCODE_BATCH 4096u

/* A stream of segments is read in order, but it comes from another core's cache, and where a segment ends is
 * known only when it is there: ask for it this many bytes before. */
enum { PREFETCH_BYTES = 4096 };

/* Code accesses. They are counted by kind, as freed, foreign, or dropped if their site was never defined.
 * When memory runs out a stream fails (encoder_bytes). */
void encoder_accesses(struct encoder *e, const struct surroundings *in, const uint32_t *sites,
                      const uint64_t *addrs, size_t n);

/* Code segments as mt_writer_stream takes them, until about ENCODE_BYTES are used up; adds the instructions
 * executed. The bytes used up. `between` may be NULL. */
#define ENCODE_BYTES ((size_t)ENCODE_BATCH * MT_STREAM_WORD)
size_t encoder_segments(struct encoder *e, const struct surroundings *in, const uint8_t *stream, size_t n,
                        uint64_t *instructions, const struct mt_between *between);

/* Code a change of a machine's state, and count it; of *c all but `uncounted`. */
void encoder_change(struct encoder *e, const struct surroundings *in, const struct mt_change *c);

/* The stream for a rare record that comes now. The caller puts the record and counts the event. */
struct buffer *encoder_rare(struct encoder *e);

/* A block was made or changed: it is likely to be accessed next. */
static inline void encoder_touch(struct encoder *e, uint64_t addr, uint32_t slot)
{
    recent_add(&e->recent, addr, slot);
}

/* Bytes in all streams so far; UINT64_MAX if one ran out of memory. */
uint64_t encoder_bytes(const struct encoder *e);

#endif
