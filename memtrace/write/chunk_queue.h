/* chunk_queue.h - a queue of finished chunks, and a thread that compresses and writes them.
 *
 * Compression takes a tenth of the time of encoding and does not use the encoder's state. In the recorder, the traced
 * program waits for the encoder while its own core is partly idle. Chunks of events are therefore compressed by a
 * second thread. It writes them in the order of the queue, whose size is bounded. The caller learns of an error when
 * it puts the next chunk or waits. How a chunk is compressed and written is in chunk_writer.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_CHUNK_QUEUE_H
#define MEMTRACE_WRITE_CHUNK_QUEUE_H

#include "memtrace/write/chunk_writer.h"

/* Limits of the queue: number of chunks, including the one that is being written, and bytes of their streams. A
 * single chunk of any size is accepted. */
enum { CHUNK_QUEUE_CHUNKS = 4, CHUNK_QUEUE_BYTES = 8 << 20 };

struct chunk_queue;

/* Start a thread that writes to the file of `o` and takes ownership of its compressor and index. Returns NULL, and
 * leaves `o` unchanged, if no thread can be started. */
struct chunk_queue *chunk_queue_start(struct chunk_writer *o);

/* Move a chunk to the queue; its streams are empty afterwards and have other memory. Waits while the queue is
 * full. Updates the counts of bytes and dropped events of `o`, and its error. */
void chunk_queue_put(struct chunk_queue *q, struct chunk_writer *o, const struct chunk_header *h,
                     struct buffer *streams);

/* Wait until all queued chunks are written. */
void chunk_queue_wait(struct chunk_queue *q, struct chunk_writer *o);

/* Wait until all queued chunks are written, end the thread, and return the compressor and the index to `o`. */
void chunk_queue_end(struct chunk_queue *q, struct chunk_writer *o);

#endif
