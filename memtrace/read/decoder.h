/* decoder.h - the EVENTS chunk being read: the mirror of memtrace/write/encoder.h.
 *
 * Holds the live blocks by slot from chunk to chunk. Every access is checked to lie in a live block and
 * every rare record to fit the state, so that a hostile chunk gives an error and never a wrong address.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_DECODER_H
#define MEMTRACE_READ_DECODER_H

#include "memtrace/format/chunk.h"
#include "memtrace/format/codebook.h"
#include "memtrace/format/predictor.h"
#include "memtrace/read/definitions.h"
#include "memtrace/read/batch.h"

/* A block by slot; size 0 and heap NO_HEAP while dead. */
struct live_block {
    uint64_t base, size, handle;
    uint32_t heap;
};
#define NO_HEAP UINT32_MAX

struct decoder {
    struct cursor streams[EVENT_STREAMS];
    const struct defs *defs;
    struct batch *batch; /* NULL: segments are made into events */
    struct codebook book;
    struct recent recent;
    struct live_block *blocks;
    uint32_t block_count, block_capacity;
    uint64_t live;
    uint64_t handles;
    uint64_t bad_frees;
    bool checkpoint_whole;      /* the last checkpoint has been read to its end */
    uint64_t checkpoint_blocks; /* of the checkpoint being read: blocks so far */
    bool rare_only;        /* accesses of segments are passed over, and counted: */
    uint64_t passed;
    bool want_freed; /* deliver accesses to freed memory */
    bool midway;     /* reading began behind blocks that are dead: slots may lie free unseen */
    bool salvage;    /* a FREE or access of a lost block is counted, not an error */
    uint64_t lost;   /* events left out for that since the reader last looked */
    uint32_t epoch;
    uint32_t prev_line;
    uint64_t run;  /* segments guessed right that come next */
    int misses;    /* what comes after the run; -1 = read a token */
    uint32_t left; /* events of the chunk not yet seen */
    uint16_t thread;
    uint64_t threads[1024]; /* a bit for each that was switched to */
    bool finished;          /* the chunk's last record has been read */
    const char *wrong;      /* why decoding stopped; NULL = fine */
};

bool decoder_init(struct decoder *d, const struct defs *defs);
void decoder_destroy(struct decoder *d);

/* Begin a chunk whose streams stand one after another in raw, with these sizes; false = out of memory. */
bool decoder_start(struct decoder *d, const struct chunk_header *h, const uint8_t *raw,
                   const uint32_t *sizes);

/* Fewest events that decoder_events has room for. */
#define DECODE_LEAST MT_SEGMENT_MOST

/* Decode up to n >= DECODE_LEAST events; how many. 0 = the chunk is finished, or d->wrong says what is wrong.
 * With a batch, which is emptied first, how many steps; they may stand for more events than that. */
size_t decoder_events(struct decoder *d, struct mt_event *events, size_t n);

/* Take the next rare record. 1: *ev is the event that it is; 0: it is none, or not wanted, the chunk is
 * finished, or d->wrong says what is wrong. For who decodes nothing else of the chunk. */
size_t decoder_rare_event(struct decoder *d, struct mt_event *ev);

/* Take a CHECKPOINT chunk: check it against the blocks, or, if `replace`, make it the blocks. A checkpoint of several
 * chunks is replaced at its first and whole at its last. What is wrong is returned in words, NULL = nothing.
 */
const char *decoder_checkpoint(struct decoder *d, struct cursor *c, bool replace);

/* Are the live blocks so many that one of them is often far away? Then asking for it pays: see
 * docs/internals/steve.md, Lines. */
#define DECODER_NEAR 32768u
static inline bool decoder_has_far_blocks(const struct decoder *d)
{
    return d->block_count > DECODER_NEAR;
}

/* Make room for a slot; false when out of memory. */
bool decoder_reserve_slot(struct decoder *d, uint64_t slot);

/* Forget every block, because slots may have changed hands. */
void decoder_forget(struct decoder *d);

/* After lost chunks in which so many blocks were made: forget every block. As many slots may be new; accesses
 * to blocks in them are to unknown ones, as to all others. */
void decoder_lose(struct decoder *d, uint64_t blocks);

#endif
