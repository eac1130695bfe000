/* chunk_writer.h - compresses streams into chunks and writes them to a descriptor; keeps the index.
 *
 * The only place of the writer that does I/O. The first error is kept; from then on chunks are dropped
 * and their events counted, so that a full disk never disturbs the traced program.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_CHUNK_WRITER_H
#define MEMTRACE_WRITE_CHUNK_WRITER_H

#include "memtrace/base/buffer.h"
#include "memtrace/format/chunk.h"

#include <zstd.h>

struct chunk_queue;

struct chunk_writer {
    int fd;
    int level;
    uint64_t written;
    uint64_t dropped; /* events in chunks that could not be written */
    uint64_t start;   /* monotonic clock, nanoseconds */
    ZSTD_CCtx *zstd;
    struct buffer payload;
    struct buffer index;   /* CHUNK records */
    uint64_t limit;        /* bytes the file may have, 0 = any number */
    bool full;             /* a chunk did not fit: it and all later ones of events are left out */
    struct chunk_queue *queue; /* a thread does the rest; NULL = done at once */
    struct mt_error err;
};

/* Write the file header; errors are in o->err. */
void chunk_writer_init(struct chunk_writer *o, int fd, int level);
void chunk_writer_free(struct chunk_writer *o);

/* Write a chunk of h->type, h->events...; the sizes, time and hash of h are filled in here, or by the thread.
 * The streams may have other memory afterwards, and may be empty: they are to be reset. */
void chunk_writer_put(struct chunk_writer *o, struct chunk_header *h, struct buffer *streams);

/* Let a thread compress and write the chunks that come, if there is one to be had. What was written, dropped
 * and went wrong is known behind chunk_writer_wait; before, up to some chunk. With a limit it is to be known at
 * once, so there is no thread then. */
void chunk_writer_background(struct chunk_writer *o);
void chunk_writer_wait(struct chunk_writer *o);
/* Wait, and go on without the thread. */
void chunk_writer_foreground(struct chunk_writer *o);

/* INDEX chunk and trailer. */
void chunk_writer_index(struct chunk_writer *o, uint64_t events, uint64_t handles, uint64_t instructions);

uint64_t chunk_writer_nanoseconds(const struct chunk_writer *o);

#endif
