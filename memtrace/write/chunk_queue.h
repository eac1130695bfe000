/* chunk_queue.h - a queue of finished chunks to a thread that compresses and writes them.
 *
 * Compression takes a tenth of the time of coding and needs no state of the coder. In the recorder, the traced program
 * waits for the coder while its own core is partly idle, so chunks of events go to a second thread. It writes them in
 * the order of the queue, whose size is bounded. The owner learns of errors when it puts the next chunk, or waits. This
 * file knows nothing of the bytes of a chunk; see chunk_writer.c.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_CHUNK_QUEUE_H
#define MEMTRACE_WRITE_CHUNK_QUEUE_H

#include "memtrace/write/chunk_writer.h"

/* Largest number of chunks that wait or are being written, and of the bytes of their streams; one chunk always fits. */
enum { CHUNK_QUEUE_CHUNKS = 4, CHUNK_QUEUE_BYTES = 8 << 20 };

struct chunk_queue;

/* Start a thread that writes to the file of `o`; it takes over o's compressor and index. NULL if no thread can be
 * started: o is then unchanged. */
struct chunk_queue *chunk_queue_start(struct chunk_writer *o);

/* Move a chunk to the queue; its streams are empty afterwards, with other memory. Waits while the queue is full.
 * Updates o's counts of bytes and dropped events, and its error. */
void chunk_queue_put(struct chunk_queue *q, struct chunk_writer *o, const struct chunk_header *h,
                     struct buffer *streams);

/* Wait until all is written. */
void chunk_queue_wait(struct chunk_queue *q, struct chunk_writer *o);

/* As chunk_queue_wait, and end the thread: o has its compressor and index again. */
void chunk_queue_end(struct chunk_queue *q, struct chunk_writer *o);

#endif
