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
#include "memtrace/stream.h"

/* -- fusion: the writer replaces segments that always follow one another by one segment --
 *
 * A superblock of a program is mostly followed by the same other one. More than half of the segments of a trace
 * therefore need not be stored one by one. The writer observes a sample of the stream. Where a segment was always
 * followed by the same one, it defines a *fused* segment that does what up to FUSION_PARTS segments do one after the
 * other. For readers a fused segment is like any other; it halves the number of segments to read and write. Callers of
 * the writer do not see fused segments: their segment ids are mapped to those of the file here.
 *
 * Only segments with nothing between them in the stream are fused. Whether the stream contains all parts is checked
 * before anything is coded. */

enum { FUSION_PARTS = 8, FUSION_WORDS = 14 };

/* The value for "no segment follows": other data follows, or the stream ends. */
#define FUSION_NOTHING UINT32_MAX

/* State of a segment as the possible first part of a fused one. */
enum fusion_state {
    FUSION_UNKNOWN, /* not frequent enough yet */
    FUSION_READY,   /* to be fused when it runs next */
    FUSION_MADE,    /* a fused segment begins with it */
    FUSION_NEVER    /* was tried, and is not possible */
};

/* A segment, by the caller's id. */
struct fusible {
    uint32_t segment, line; /* in the codebook */
    uint32_t fused;         /* line of the fused segment that begins with this one, if FUSION_MADE */
    uint32_t next;          /* the segment that mostly followed it when it was observed */
    uint16_t seen, broken;  /* times observed; times that another segment followed */
    uint8_t state;          /* enum fusion_state */
};

struct fusion {
    struct fusible *of; /* by the caller's id */
    uint32_t count;
    size_t room;
    uint32_t calls; /* of fusion_samples */
};

void fusion_free(struct fusion *f);

/* Add the caller's next segment, whose line has its name already; false when out of memory. */
bool fusion_add(struct fusion *f, uint32_t segment, uint32_t line);

/* Is this part of the stream to be observed? One in 32 is, at random. */
bool fusion_samples(struct fusion *f);

/* Observe that the caller's segment `next`, or FUSION_NOTHING, followed `id`. */
void fusion_observe(struct fusion *f, struct codebook *book, uint32_t id, uint32_t next);

/* Plan the fused segment that begins with `id`, which is FUSION_READY: fills in *s, whose accesses are in `accesses`,
 * and the ids of the parts. Returns the number of parts; below 2, there can be none. */
unsigned fusion_plan(const struct fusion *f, const struct codebook *book, uint32_t id, struct mt_segment *s,
                     struct mt_access accesses[MT_SEGMENT_MOST], uint32_t parts[FUSION_PARTS]);

/* Record the outcome of fusion_plan: the fused segment is the last one of the codebook or, if n < 2, does not exist. */
void fusion_made(struct fusion *f, struct codebook *book, uint32_t id, const uint32_t *parts, unsigned n);

/* -- the encoder -- */

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
