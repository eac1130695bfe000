/* reader_impl.h - the state of `struct mt_reader`, shared by reader*.c and dump.c only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_READ_READER_IMPL_H
#define MEMTRACE_READ_READER_IMPL_H

#include "memtrace/base/id_list.h"
#include "memtrace/base/input.h"
#include "memtrace/blocks/blockmap.h"
#include "memtrace/blocks/overlay.h"
#include "memtrace/read/decoder.h"
#include "memtrace/read/snapshot.h"

/* Events delivered at a time: few enough to stay in the first-level cache. */
#define READER_BATCH MT_STEP_MOST

/* Descriptions of damage that are kept; the rest is only counted. */
#define MAX_NOTES 100

struct places {
    struct mt_seek_point *at;
    uint32_t count;
    size_t room;
};

/* Who is handed each chunk of events and of definitions, once it was found sound: its header, its payload as
 * stored, and, of definitions, of events' tokens and rare records, what that decompresses to. The chunk of
 * events has just begun, and is to be decoded by the taker. */
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
    uint64_t chunk_offset;
    uint64_t next_event; /* events in the file before the next chunk */
    uint64_t lost;       /* events known to be missing and not yet told */
    bool seen_end, seen_index;
    bool moved;      /* not all chunks before were read: reading began in the middle */
    uint64_t chunks; /* those before, in a number */
    bool adrift;     /* the live blocks are not known: the next checkpoint lists them */
    uint64_t index_offset;
    struct id_list survivors;   /* looked at, not kept */
    struct places seek_points, defs; /* once asked for: where reading can begin; all DEFS chunks */
    uint64_t defs_end;          /* DEFS chunks before this offset have been applied */
    uint64_t stop;              /* chunks from this offset on are not wanted */
    uint64_t pass_until;        /* accesses of chunks before this offset are not wanted */
    uint8_t *raw;               /* streams of the current chunk */
    size_t raw_capacity;
    ZSTD_DCtx *zstd;
    struct chunk_taker taker; /* none: {0} */
};

/* What reading classic text needs. */
struct text_reader {
    struct blockmap map;
    struct overlay overlay; /* instead of map, with MT_OPEN_OVERLAPS */
    uint64_t line;  /* number of the next line, from 1 */
    uint64_t found; /* lines that are events */
    bool in_long_line;
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
    struct batch *batch; /* once asked for */
    struct mt_event events[READER_BATCH];
};

/* Read the next events into r->events; *n of them. As mt_next. */
int binary_next(struct mt_reader *r, size_t *n);
int text_next(struct mt_reader *r, size_t *n);

/* Look at the file header, which is in the window. */
int binary_begin(struct mt_reader *r);
/* The same where chunks follow. */
int binary_begin_chunks(struct mt_reader *r);

/* A reader of the chunks that follow in the input of an ops file, which it takes over. NULL on error, with
 * *err filled; the input is closed then. */
struct mt_reader *reader_of_ops(struct input *in, struct mt_error *err);

/* Begin anew at a chunk, with no blocks. MT_OK or MT_ERROR. */
int binary_go(struct mt_reader *r, const struct mt_seek_point *to);
/* Read one chunk that is not EVENTS, or any if there is a taker. MT_MORE, MT_END or MT_ERROR. */
int binary_chunk(struct mt_reader *r);

/* Take a SURVIVORS chunk: is it one, and are there as many as live? Which they are is for who needs them to see.
 */
bool reader_read_survivors(struct mt_reader *r, uint32_t size);
/* May a chunk of this type come? Behind SURVIVORS chunks there are no events, and all of them come before END. */
bool reader_fits_survivors(const struct mt_reader *r, uint8_t type);

/* Can it be sought in? The header at an offset, reading staying where it is; false if there is none. */
bool reader_is_plain(const struct mt_reader *r);
bool reader_header_at(const struct mt_reader *r, uint64_t offset, struct chunk_header *h);

/* Keep a description of damage that salvaging skips. */
void reader_note(struct mt_reader *r, uint64_t offset, const char *what);

#endif
