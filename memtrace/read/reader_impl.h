/* reader_impl.h - the state of `struct mt_reader`, shared by reader*.c and dump.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_READER_IMPL_H
#define MEMTRACE_READ_READER_IMPL_H

#include "memtrace/base/array.h"
#include "memtrace/base/id_list.h"
#include "memtrace/base/lines.h"
#include "memtrace/blocks/blockmap.h"
#include "memtrace/blocks/overlay.h"
#include "memtrace/read/decoder.h"
#include "memtrace/read/definitions.h"

/* -- reads SNAPSHOT chunks: arrays of objects and links, all checked.
 *
 * A snapshot may consist of several chunks, with only DEFS chunks between them. It is valid when its last part was
 * read. See docs/memtrace-format.md. -- */

struct snapshots {
    struct mt_snapshot *items; /* complete snapshots, with their arrays */
    uint32_t count;
    size_t room;
    bool open;               /* the first part was read, but not the last: */
    struct mt_snapshot part; /* what was read of it */
    struct mt_object *objects;
    struct mt_link *links;
    size_t objects_room, links_room;
    uint32_t from, to; /* ends of the last link */
};

void snapshots_free(struct snapshots *s);
/* Free the arrays of a complete snapshot. */
void snapshot_forget(struct mt_snapshot *s);
/* Discard an incomplete snapshot. */
void snapshots_drop(struct snapshots *s);
/* Read a part. Returns a description of the error, or NULL. `event`: number of events in the file before it. */
const char *snapshots_take(struct snapshots *s, struct cursor *c, const struct defs *defs, uint64_t event,
                           struct record_hook *hook);

/* -- the reader -- */

/* Events delivered at a time: few enough to stay in the first-level cache. */
#define READER_BATCH MT_STEP_MOST

/* Descriptions of damage that are kept; the rest is only counted. */
#define MAX_NOTES 100

struct places {
    struct mt_seek_point *at;
    uint32_t count;
    size_t room;
};

/* A function that gets each chunk after the reader has checked and applied it: header, payload as it is in the file,
 * and the decompressed streams one after the other, with their sizes. Of EVENTS chunks, only the tokens and rare
 * records are decompressed; the decoder has begun the chunk, and the function has to decode its rare records. */
struct chunk_taker {
    void (*take)(void *context, const struct chunk_header *h, const uint8_t *payload, const uint8_t *raw,
                 const uint32_t *sizes);
    void *context;
};

/* What reading a binary trace needs. */
struct binary_reader {
    struct decoder dec;
    struct chunk_header chunk; /* the EVENTS chunk being decoded */
    bool in_chunk;
    uint8_t kinds; /* number of kinds of events that the file counts */
    uint64_t chunk_offset;
    uint64_t next_event; /* events in the file before the next chunk */
    uint64_t lost;       /* events known to be missing and not yet reported */
    bool seen_end, seen_index;
    bool moved;      /* not all chunks before were read: reading began in the middle */
    uint64_t chunks; /* a hash of the index entries of all chunks so far */
    bool adrift;     /* the live blocks are not known: the next checkpoint lists them */
    uint64_t index_offset;
    struct id_list survivors, container_list; /* the state of checking the lists at the end */
    struct id_list containers;                /* all containers, read before the first event */
    bool looked_for_containers;
    struct places seek_points,
        defs;                 /* filled on the first request: where reading can begin; all DEFS chunks */
    uint64_t defs_end;        /* DEFS chunks before this offset have been applied */
    uint64_t stop;            /* reading ends before this offset */
    bool following, followed; /* mt_follow was called; it has made the whole file available */
    uint64_t pass_until;      /* accesses of chunks before this offset are skipped */
    uint8_t *raw;             /* streams of the current chunk */
    size_t raw_capacity;
    ZSTD_DCtx *zstd;
    struct chunk_taker taker; /* none: {0} */
};

/* What reading classic text needs. */
struct text_reader {
    struct blockmap map;
    struct overlay overlay; /* instead of map, with MT_OPEN_OVERLAPS */
    struct lines lines;     /* a line with an event is not too long */
    uint64_t found;         /* lines that are events */
};

struct mt_reader {
    struct input in;
    unsigned flags;
    bool of_ops; /* it is the trace in an ops file (memtrace/ops/trace_copy.h) */
    struct mt_error err;
    struct mt_reader_stats stats;
    struct defs defs;
    struct record_hook hook;
    struct snapshots snapshots;
    struct binary_reader binary;
    struct text_reader text;
    char **notes;
    uint32_t note_count;
    struct batch *batch; /* NULL until the first request */
    struct mt_event events[READER_BATCH];
};

/* Read the next *n events into r->events. Returns as mt_next. */
int binary_next(struct mt_reader *r, size_t *n);
int text_next(struct mt_reader *r, size_t *n);

/* Check the file header, which is in the input's window. */
int binary_begin(struct mt_reader *r);
/* The same for input that begins with a chunk, of a format version. */
int binary_begin_chunks(struct mt_reader *r, uint32_t version);

/* A reader of the chunks, of a format version, that follow in the input of an ops file. The reader owns the input.
 * NULL on error, with *err filled; the input is then closed. */
struct mt_reader *reader_of_ops(struct input *in, uint32_t version, struct mt_error *err);

/* Continue at a chunk, without live blocks. MT_OK or MT_ERROR. */
int binary_go(struct mt_reader *r, const struct mt_seek_point *to);
/* Read one chunk, which must not be EVENTS unless there is a taker. MT_MORE, MT_END or MT_ERROR. */
int binary_chunk(struct mt_reader *r);

/* Is the input seekable? And: read the chunk header at an offset, without changing the position; false if there is
 * none. */
bool reader_is_plain(const struct mt_reader *r);
bool reader_header_at(const struct mt_reader *r, uint64_t offset, struct chunk_header *h);

/* Keep a description of damage that salvaging skips. */
void reader_note(struct mt_reader *r, uint64_t offset, const char *what);

#endif
