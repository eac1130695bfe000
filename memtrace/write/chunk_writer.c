/* chunk_writer.c - compresses streams into chunks and writes them to the file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/chunk_writer.h"
#include "memtrace/base/compression.h"
#include "memtrace/base/error.h"
#include "memtrace/format/records.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t chunk_writer_nanoseconds(const struct chunk_writer *o)
{
    return o->has_clock ? o->clock : now() - o->start;
}

static void write_all(struct chunk_writer *o, const uint8_t *p, size_t n)
{
    while (n && o->err.code == MT_E_NONE) {
        ssize_t done = write(o->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            const char *remedy =
                done < 0 && errno == EPIPE ? "its reader has ended" : "make room and trace again";
            mt_fail(&o->err, MT_E_IO, o->written, "cannot write the trace: %s; it ends here, %s",
                    strerror(done < 0 ? errno : ENOSPC), remedy);
            return;
        }
        p += done;
        n -= (size_t)done;
        o->written += (uint64_t)done;
    }
}

void chunk_writer_init(struct chunk_writer *o, int fd, int level)
{
    uint8_t header[FILE_HEADER_SIZE];
    *o = (struct chunk_writer){.fd = fd, .start = now()};
    if (!payload_init(&o->payload, level ? level : COMPRESSION_LEVEL))
        mt_fail_memory(&o->err);
    file_header_pack(header);
    write_all(o, header, sizeof header);
}

void chunk_writer_free(struct chunk_writer *o)
{
    payload_free(&o->payload);
    buffer_free(&o->index);
}

static void end_payload(struct chunk_writer *o, struct chunk_header *h)
{
    if (o->payload.bytes.failed)
        mt_fail_memory(&o->err);
    payload_end(&o->payload, h);
}

static void pack_payload(struct chunk_writer *o, struct chunk_header *h, const struct buffer *streams)
{
    payload_begin(&o->payload, h->type);
    for (unsigned i = 0; i < chunk_streams(h->type); i++)
        payload_add(&o->payload, i, &streams[i]);
    end_payload(o, h);
}

static void note_chunk(struct chunk_writer *o, const struct chunk_header *h)
{
    struct rec_chunk r = {h->type, o->written, h->events, h->first_event, h->first_handle};
    put_chunk(&o->index, &r);
}

/* Upper bound of the bytes that the END chunk, the index and the trailer need. */
static uint64_t room_for_end(const struct chunk_writer *o)
{
    return 3 * CHUNK_HEADER_SIZE + 512 + 2 * buffer_size(&o->index);
}

uint64_t chunk_writer_room(const struct chunk_writer *o)
{
    const uint64_t used = o->written + room_for_end(o);
    return o->limit == 0 ? UINT64_MAX : used < o->limit ? o->limit - used : 0;
}

/* Does the chunk exceed the size limit of the file? Chunks that end the file never do, because room is reserved
 * for them. Checkpoints are not refused here: writer.c does not write them when they would need that room. */
static bool refused(struct chunk_writer *o, const struct chunk_header *h)
{
    if (o->limit == 0 || (h->type != CHUNK_EVENTS && h->type != CHUNK_DEFS))
        return false;
    o->full = o->full || o->written + CHUNK_HEADER_SIZE + h->stored_size + room_for_end(o) > o->limit;
    return o->full;
}

/* Write the payload with its header, whose sizes and time are filled in. */
static void write_payload(struct chunk_writer *o, struct chunk_header *h)
{
    uint8_t header[CHUNK_HEADER_SIZE];
    h->payload_hash = XXH3_64bits(o->payload.bytes.data, h->stored_size);
    chunk_header_pack(h, header);
    note_chunk(o, h);
    write_all(o, header, sizeof header);
    write_all(o, o->payload.bytes.data, h->stored_size);
}

static void write_chunk(struct chunk_writer *o, struct chunk_header *h, const struct buffer *streams)
{
    if (o->err.code == MT_E_NONE)
        pack_payload(o, h, streams);
    if (refused(o, h))
        return;
    if (o->err.code == MT_E_NONE) {
        h->nanoseconds = chunk_writer_nanoseconds(o);
        write_payload(o, h);
    }
    if (o->err.code != MT_E_NONE)
        o->dropped += h->events;
}

/* -- the queue: a ring buffer of finished chunks, and the thread that compresses and writes them --
 *
 * The chunk that is being written stays in the ring until it is written. An empty ring therefore means that
 * everything is written. Each entry of the ring keeps its buffers: they are exchanged for the buffers of the next
 * chunk. The caller learns of an error when it puts the next chunk or waits. */

/* Limits of the queue: number of chunks, including the one that is being written, and bytes of their streams. A
 * single chunk of any size is accepted. */
enum { CHUNK_QUEUE_CHUNKS = 4, CHUNK_QUEUE_BYTES = 8 << 20 };

/* Size of the thread's stack. The compressor's memory is not on the stack. */
enum { STACK_BYTES = 1 << 18 };

struct queued_chunk {
    struct chunk_header header;
    struct buffer streams[EVENT_STREAMS];
    uint64_t bytes;
};

struct chunk_queue {
    pthread_t thread;
    /* Protects everything below except `out`, which belongs to the thread, and the contents of `chunks`: `first`
     * and `count` say whether an entry belongs to the thread or to the caller. */
    pthread_mutex_t lock;
    pthread_cond_t not_empty, done;
    struct queued_chunk chunks[CHUNK_QUEUE_CHUNKS];
    unsigned first, count;
    uint64_t bytes; /* sum of the bytes of the queued chunks */
    bool ending;
    struct chunk_writer out;   /* used by the thread only */
    uint64_t written, dropped; /* of `out`, copied after each chunk */
    struct mt_error err;       /* likewise */
};

/* Wait for the next chunk to write; NULL if there will be no more. */
static struct queued_chunk *next_chunk(struct chunk_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (q->count == 0 && !q->ending)
        pthread_cond_wait(&q->not_empty, &q->lock);
    struct queued_chunk *p = q->count ? &q->chunks[q->first] : NULL;
    pthread_mutex_unlock(&q->lock);
    return p;
}

static void finish_chunk(struct chunk_queue *q, const struct queued_chunk *p)
{
    pthread_mutex_lock(&q->lock);
    q->first = (q->first + 1) % CHUNK_QUEUE_CHUNKS;
    q->count--;
    q->bytes -= p->bytes;
    q->written = q->out.written;
    q->dropped = q->out.dropped;
    q->err = q->out.err;
    pthread_cond_signal(&q->done);
    pthread_mutex_unlock(&q->lock);
}

static void *work(void *arg)
{
    struct chunk_queue *q = arg;
    for (struct queued_chunk *p; (p = next_chunk(q));) {
        write_chunk(&q->out, &p->header, p->streams);
        finish_chunk(q, p);
    }
    return NULL;
}

/* Start the thread with all signals blocked, so that a failed write is an error code and not a signal. */
static bool start_thread(struct chunk_queue *q)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&q->thread, &attributes, work, q) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return ok;
}

/* Start a thread that writes to the file of `o` and takes ownership of its compressor and index. Returns NULL, and
 * leaves `o` unchanged, if no thread can be started. */
static struct chunk_queue *chunk_queue_start(struct chunk_writer *o)
{
    struct chunk_queue *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->out = *o;
    q->written = o->written;
    q->dropped = o->dropped;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->not_empty, NULL);
    pthread_cond_init(&q->done, NULL);
    if (start_thread(q))
        return q;
    free(q);
    return NULL;
}

/* Wait until there is room for a chunk of this size. The caller holds the lock. */
static void wait_for_room(struct chunk_queue *q, uint64_t bytes)
{
    while (q->count == CHUNK_QUEUE_CHUNKS || (q->count && q->bytes + bytes > CHUNK_QUEUE_BYTES))
        pthread_cond_wait(&q->done, &q->lock);
}

/* Copy the counts of the thread to the caller's chunk writer, and the error of the thread unless the caller's
 * chunk writer already has one. The caller holds the lock. */
static void bring_up_to_date(const struct chunk_queue *q, struct chunk_writer *o)
{
    o->written = q->written;
    o->dropped = q->dropped;
    if (o->err.code == MT_E_NONE)
        o->err = q->err;
}

/* Exchange the empty buffers of an entry for the buffers of a chunk. */
static void fill(struct queued_chunk *p, const struct chunk_header *h, struct buffer *streams, uint64_t bytes)
{
    for (unsigned i = 0; i < chunk_streams(h->type); i++) {
        struct buffer spare = p->streams[i];
        p->streams[i] = streams[i];
        streams[i] = spare;
        buffer_reset(&streams[i]);
    }
    p->header = *h;
    p->bytes = bytes;
}

static uint64_t bytes_of(const struct chunk_header *h, const struct buffer *streams)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < chunk_streams(h->type); i++)
        bytes += buffer_size(&streams[i]);
    return bytes;
}

/* Move a chunk to the queue; its streams are empty afterwards and have other memory. Waits while the queue is
 * full. Updates the counts of bytes and dropped events of `o`, and its error. */
static void chunk_queue_put(struct chunk_queue *q, struct chunk_writer *o, const struct chunk_header *h,
                            struct buffer *streams)
{
    uint64_t bytes = bytes_of(h, streams);
    pthread_mutex_lock(&q->lock);
    wait_for_room(q, bytes);
    fill(&q->chunks[(q->first + q->count) % CHUNK_QUEUE_CHUNKS], h, streams, bytes);
    q->count++;
    q->bytes += bytes;
    bring_up_to_date(q, o);
    pthread_cond_signal(&q->not_empty);
    pthread_mutex_unlock(&q->lock);
}

/* Wait until all queued chunks are written. */
static void chunk_queue_wait(struct chunk_queue *q, struct chunk_writer *o)
{
    pthread_mutex_lock(&q->lock);
    while (q->count)
        pthread_cond_wait(&q->done, &q->lock);
    bring_up_to_date(q, o);
    pthread_mutex_unlock(&q->lock);
}

/* Wait until all queued chunks are written, end the thread, and return the compressor and the index to `o`. */
static void chunk_queue_end(struct chunk_queue *q, struct chunk_writer *o)
{
    struct mt_error own = o->err;
    pthread_mutex_lock(&q->lock);
    q->ending = true;
    pthread_cond_signal(&q->not_empty);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    *o = q->out;
    if (own.code != MT_E_NONE)
        o->err = own;
    for (unsigned i = 0; i < CHUNK_QUEUE_CHUNKS; i++)
        for (unsigned k = 0; k < EVENT_STREAMS; k++)
            buffer_free(&q->chunks[i].streams[k]);
    pthread_cond_destroy(&q->not_empty);
    pthread_cond_destroy(&q->done);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

/* -- for the caller -- */

void chunk_writer_copy(struct chunk_writer *o, const struct chunk_header *h, const uint8_t *payload,
                       const struct buffer *const *anew)
{
    const unsigned n = chunk_streams(h->type);
    const uint8_t *from = payload + 8 * n;
    struct chunk_header copy = *h;
    payload_begin(&o->payload, h->type);
    for (unsigned i = 0; i < n; i++) {
        const uint32_t raw = load_u32(payload + 8 * i), stored = load_u32(payload + 8 * i + 4);
        if (anew[i])
            payload_add(&o->payload, i, anew[i]);
        else
            payload_add_stored(&o->payload, i, from, raw, stored);
        from += stored;
    }
    end_payload(o, &copy);
    if (o->err.code == MT_E_NONE)
        write_payload(o, &copy);
}

void chunk_writer_put(struct chunk_writer *o, struct chunk_header *h, struct buffer *streams)
{
    for (unsigned i = 0; i < chunk_streams(h->type); i++)
        if (streams[i].failed) {
            chunk_writer_foreground(o);
            mt_fail_memory(&o->err);
        }
    if (o->queue)
        chunk_queue_put(o->queue, o, h, streams);
    else
        write_chunk(o, h, streams);
}

void chunk_writer_background(struct chunk_writer *o)
{
    if (!o->queue && !o->limit && o->err.code == MT_E_NONE)
        o->queue = chunk_queue_start(o);
}

void chunk_writer_wait(struct chunk_writer *o)
{
    if (o->queue)
        chunk_queue_wait(o->queue, o);
}

void chunk_writer_foreground(struct chunk_writer *o)
{
    if (o->queue)
        chunk_queue_end(o->queue, o);
}

void chunk_writer_index(struct chunk_writer *o, uint64_t events, uint64_t handles, uint64_t instructions)
{
    uint8_t trailer[TRAILER_SIZE];
    uint64_t offset = o->written;
    struct buffer index = o->index;
    struct chunk_header h = {
        .type = CHUNK_INDEX, .first_event = events, .first_handle = handles, .instructions = instructions};
    o->index = (struct buffer){0};
    chunk_writer_put(o, &h, &index);
    buffer_free(&index);
    trailer_pack(offset, trailer);
    write_all(o, trailer, sizeof trailer);
}
