/* chunk_writer.h - compresses streams into chunks, writes them to a file descriptor and keeps the index.
 *
 * This is the only part of the writer that does I/O. After the first error, chunks are dropped and their events are
 * counted, so that a full disk never disturbs the traced program.
 *
 * Compression takes a tenth of the time of encoding and does not use the encoder's state. In the recorder, the traced
 * program waits for the encoder while its own core is partly idle. Chunks of events are therefore compressed by a
 * second thread (chunk_writer_background). It writes them in the order of a queue, whose size is bounded.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_CHUNK_WRITER_H
#define MEMTRACE_WRITE_CHUNK_WRITER_H

#include "memtrace/base/buffer.h"
#include "memtrace/format/chunk.h"

struct chunk_queue;

struct chunk_writer {
    int fd;
    uint64_t written;
    uint64_t dropped; /* number of events in chunks that could not be written */
    uint64_t start;   /* value of the monotonic clock at the start, nanoseconds */
    bool has_clock;   /* the caller sets the clock */
    uint64_t clock;   /* nanoseconds since the start, then */
    struct chunk_payload payload;
    struct buffer index;       /* CHUNK records of the chunks written so far */
    uint64_t limit;            /* maximum size of the file in bytes; 0 = no limit */
    bool full;                 /* a chunk did not fit; no further chunk of events is written */
    struct chunk_queue *queue; /* of the thread that writes chunks; NULL = the caller writes */
    struct mt_error err;
};

/* Initialize and write the file header. An error is stored in o->err. */
void chunk_writer_init(struct chunk_writer *o, int fd, int level);
void chunk_writer_free(struct chunk_writer *o);

/* Write a chunk. The caller fills in the type, events and positions of *h; sizes, time and hash are filled in here
 * or by the thread. Afterwards the streams may have other memory and may be empty, and the caller has to reset
 * them. That memory has run out for one of them is an error. */
void chunk_writer_put(struct chunk_writer *o, struct chunk_header *h, struct buffer *streams);

/* Write a chunk that is a copy of one in another file, whose header and payload are given; the copy has its positions
 * and its time. anew: for each stream NULL, or what it is replaced by. Not while a thread writes. */
void chunk_writer_copy(struct chunk_writer *o, const struct chunk_header *h, const uint8_t *payload,
                       const struct buffer *const *anew);

/* Let a thread compress and write the following chunks, if one can be started. From then on, `written`, `dropped`
 * and `err` are exact only after chunk_writer_wait; before, they may not include the last chunks. With a size
 * limit, no thread is used, because the exact size is needed after each chunk. */
void chunk_writer_background(struct chunk_writer *o);
void chunk_writer_wait(struct chunk_writer *o);
/* Wait until all is written, and write without a thread from then on. */
void chunk_writer_foreground(struct chunk_writer *o);

/* How many bytes of chunks before END the limit still permits; UINT64_MAX if there is none. */
uint64_t chunk_writer_room(const struct chunk_writer *o);

/* Write the INDEX chunk and the trailer. */
void chunk_writer_index(struct chunk_writer *o, uint64_t events, uint64_t handles, uint64_t instructions);

uint64_t chunk_writer_nanoseconds(const struct chunk_writer *o);

#endif
