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
enum { OUTBOX_CHUNKS = 4, OUTBOX_BYTES = 8 << 20 };

struct outbox;

/* Start a thread that writes to what `o` writes to, and leave o's compressor and index to it. NULL if there
 * is no thread to be had: then o is as it was. */
struct outbox *outbox_start(struct output *o);

/* Give a chunk away, with what its streams hold; they are empty afterwards, with other memory. Waits while
 * the outbox is full. Of o what has been written, dropped and gone wrong is brought up to date. */
void outbox_put(struct outbox *box, struct output *o, const struct chunk_header *h, struct buffer *streams);

/* Wait until all is written. */
void outbox_wait(struct outbox *box, struct output *o);

/* The same, and end the thread: o has all back. */
void outbox_end(struct outbox *box, struct output *o);

#endif
