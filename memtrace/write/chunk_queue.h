/* chunk_queue.h - finished chunks on their way to a thread that compresses and writes them.
 *
 * Compressing takes a tenth of what coding takes, and needs nothing of the coder's state. In the recorder the
 * coder is what the traced program waits for, while the program's own core is idle for a part of the time: so
 * chunks of events go to a second thread. They are written in the order in which they are put here; there is
 * one thread, and what waits for it is bounded. The owner learns of errors when it puts the next chunk, or
 * waits. What a chunk's bytes are is chunk_writer.c's; this file knows nothing of it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_WRITE_CHUNK_QUEUE_H
#define MEMTRACE_WRITE_CHUNK_QUEUE_H

#include "memtrace/write/chunk_writer.h"

/* Chunks that wait or are being written; and the bytes of their streams, unless it is one chunk. */
enum { CHUNK_QUEUE_CHUNKS = 4, CHUNK_QUEUE_BYTES = 8 << 20 };

struct chunk_queue;

/* Start a thread that writes to what `o` writes to, and leave o's compressor and index to it. NULL if there
 * is no thread to be had: then o is as it was. */
struct chunk_queue *chunk_queue_start(struct chunk_writer *o);

/* Give a chunk away, with what its streams hold; they are empty afterwards, with other memory. Waits while
 * the queue is full. Of o what has been written, dropped and gone wrong is brought up to date. */
void chunk_queue_put(struct chunk_queue *q, struct chunk_writer *o, const struct chunk_header *h,
                     struct buffer *streams);

/* Wait until all is written. */
void chunk_queue_wait(struct chunk_queue *q, struct chunk_writer *o);

/* The same, and end the thread: o has all back. */
void chunk_queue_end(struct chunk_queue *q, struct chunk_writer *o);

#endif
