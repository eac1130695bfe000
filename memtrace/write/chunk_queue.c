/* chunk_queue.c - a ring buffer of finished chunks and the thread that compresses and writes them.
 *
 * The chunk that is being written stays in the ring until it is written. An empty ring therefore means that
 * everything is written. Each entry of the ring keeps its buffers: they are exchanged for the buffers of the next
 * chunk.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/chunk_queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

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
        chunk_writer_put(&q->out, &p->header, p->streams);
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

struct chunk_queue *chunk_queue_start(struct chunk_writer *o)
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

void chunk_queue_put(struct chunk_queue *q, struct chunk_writer *o, const struct chunk_header *h,
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

void chunk_queue_wait(struct chunk_queue *q, struct chunk_writer *o)
{
    pthread_mutex_lock(&q->lock);
    while (q->count)
        pthread_cond_wait(&q->done, &q->lock);
    bring_up_to_date(q, o);
    pthread_mutex_unlock(&q->lock);
}

void chunk_queue_end(struct chunk_queue *q, struct chunk_writer *o)
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
