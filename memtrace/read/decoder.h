/* decoder.h - decodes EVENTS chunks: the inverse of memtrace/write/encoder.h.
 *
 * It keeps the live blocks by slot from chunk to chunk. It checks that each access is in a live block and that each
 * rare record fits the state, so that a malicious file causes an error and never an access to a wrong address.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_DECODER_H
#define MEMTRACE_READ_DECODER_H

#include "memtrace/format/chunk.h"
#include "memtrace/format/codebook.h"
#include "memtrace/format/predictor.h"
#include "memtrace/read/definitions.h"

/* The block of a slot; size 0 and heap NO_HEAP if there is none. */
struct live_block {
    uint64_t base, size, handle;
    uint32_t heap;
    bool container, kept; /* as in struct mt_event */
};
#define NO_HEAP UINT32_MAX

struct decoder {
    struct cursor streams[EVENT_STREAMS];
    const struct defs *defs;
    struct batch *batch; /* NULL: deliver events, not segments */
    struct codebook book;
    struct recent recent;
    struct live_block *blocks; /* by slot */
    uint32_t block_count, block_capacity;
    uint64_t live;              /* number of live blocks */
    uint64_t handles;           /* of all blocks so far: the next one has this handle */
    const uint64_t *containers; /* twice their handles, + 1 if kept, ascending; NULL if unknown */
    size_t n_containers;
    uint64_t unmatched_frees;   /* bad frees of no block */
    uint64_t mismatched_frees;  /* those of blocks that other functions made */
    bool checkpoint_whole;      /* the last checkpoint was read completely */
    uint64_t checkpoint_blocks; /* number of blocks read of the current checkpoint */
    bool rare_only;             /* accesses of segments are only counted, in: */
    uint64_t passed;
    bool want_freed; /* deliver accesses to freed memory */
    bool midway;    /* reading began after a place where slots are free, so News in unknown slots are valid */
    bool salvage;   /* a Free or access of a lost block is counted and is not an error */
    uint64_t lost;  /* number of events omitted for that reason since the reader last used it */
    uint32_t epoch; /* number of the chunk: what a line of the codebook has learnt holds in one chunk only */
    uint32_t prev_line; /* of the segment that ran last */
    uint64_t run;       /* number of predicted segments that come next */
    int misses;         /* misses after the run; -1 = read a token */
    uint32_t left;      /* number of events of the chunk not decoded yet */
    uint16_t thread;
    uint64_t threads[1024]; /* bit set of the thread numbers that occurred */
    uint32_t thread_end;    /* greater than all of them */
    bool finished;          /* the last record of the chunk was read */
    const char *wrong;      /* description of the error that stopped decoding; NULL = none */
};

bool decoder_init(struct decoder *d, const struct defs *defs);
void decoder_destroy(struct decoder *d);

/* Begin a chunk whose streams, of these sizes, follow one another in `raw`; false when out of memory. */
bool decoder_start(struct decoder *d, const struct chunk_header *h, const uint8_t *raw,
                   const uint32_t *sizes);

/* Minimum size of the array that decoder_events fills. */
#define DECODE_LEAST MT_SEGMENT_MOST

/* Decode up to n >= DECODE_LEAST events and return their number. 0 means that the chunk is finished or that
 * d->wrong describes an error. With a batch, which is emptied first, the number of its steps is returned; they may
 * contain more events. */
size_t decoder_events(struct decoder *d, struct mt_event *events, size_t n);

/* Read the next rare record, for callers that decode nothing else of the chunk. Returns 1 if *ev is its event.
 * Returns 0 if it is not an event or not wanted, if the chunk is finished, or if d->wrong describes an error. */
size_t decoder_rare_event(struct decoder *d, struct mt_event *ev);

/* Read a CHECKPOINT chunk. Its blocks replace the live blocks if `replace`, and are compared with them if not. A
 * checkpoint of several chunks replaces the blocks at its first chunk and is complete after its last. Returns a
 * description of the error, or NULL. */
const char *decoder_checkpoint(struct decoder *d, struct cursor *c, bool replace);

/* Are there so many live blocks that accesses to them often miss the cache? Prefetching them is faster then: see
 * docs/internals/steve.md, Lines. */
#define DECODER_NEAR 32768u
static inline bool decoder_has_far_blocks(const struct decoder *d)
{
    return d->block_count > DECODER_NEAR;
}

/* Set `container` and `kept` of a block as the list of containers has them. */
void decoder_note_container(const struct decoder *d, struct live_block *b);

/* Make room for a slot; false when out of memory. */
bool decoder_reserve_slot(struct decoder *d, uint64_t slot);

/* Remove all blocks, because their slots may be used by others now. */
void decoder_forget(struct decoder *d);

/* After lost chunks with this number of new blocks: remove all blocks. Up to so many slots may be new. Accesses to
 * blocks in any slot are then to unknown blocks. */
void decoder_lose(struct decoder *d, uint64_t blocks);

/* -- rare records -- */

enum rare_result { RARE_NONE, RARE_EVENT, RARE_STOP };

/* Read one record, apply it to the state, and fill *ev if it is an event. On error, d->wrong is set. */
enum rare_result decode_rare(struct decoder *d, struct mt_event *ev);

/* Prefetch the block that the next record frees or resizes, also if a change of the thread precedes it. */
void decode_rare_ahead(const struct decoder *d);

/* -- batches of segments, for mt_next_batch --
 *
 * Most of the time of reading is spent on writing events, 64 bytes for each access. But the addresses of a few words
 * determine all accesses of a segment. A batch therefore contains, for each segment that ran, its line in the
 * codebook and the places of its words. This is possible only if all accesses of each word are in one live block, or
 * all in none. Other segments are delivered as events, so that readers of batches do not have to check this. */

#define BATCH_STEPS 512
#define BATCH_PLACES ((BATCH_STEPS + 1) * MT_SEGMENT_WORDS)

struct batch {
    struct mt_step steps[BATCH_STEPS + 1];
    struct mt_place places[BATCH_PLACES];
    uint32_t n_steps, n_places, n_events;
    uint64_t total;                   /* number of events that the steps contain */
    struct mt_segment_word *segments; /* by line of the codebook */
    struct mt_segment_access *accesses;
    uint32_t n_segments, n_accesses;
    size_t room_segments, room_accesses;
};

void batch_free(struct batch *p);

static inline void batch_empty(struct batch *p)
{
    p->n_steps = p->n_places = p->n_events = 0;
    p->total = 0;
}

/* Is there room for another segment? */
static inline bool batch_has_room(const struct batch *p)
{
    return p->n_steps < BATCH_STEPS;
}

/* Where to store the places of the next segment. */
static inline struct mt_place *batch_places(struct batch *p)
{
    return p->places + p->n_places;
}

/* Add a step for the next n events in the array of events. */
static inline void batch_events(struct batch *p, size_t n)
{
    struct mt_step *last = p->n_steps ? &p->steps[p->n_steps - 1] : NULL;
    p->total += n;
    p->n_events += (uint32_t)n;
    if (n && last && last->segment == MT_STEP_EVENTS)
        last->count = (uint16_t)(last->count + n);
    else if (n)
        p->steps[p->n_steps++] = (struct mt_step){.segment = MT_STEP_EVENTS, .count = (uint16_t)n};
}

#endif
