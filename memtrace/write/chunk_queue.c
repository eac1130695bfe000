/* chunk_queue.c - see chunk_queue.h.
 *
 * A ring of chunks. The one being written stays in it until it is done, so that an empty ring means that all
 * is written. The buffers of a place stay there and are exchanged for those of the next chunk.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/chunk_queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* The thread's stack; compressors have their memory elsewhere. */
enum { STACK_BYTES = 1 << 18 };

struct parcel {
    struct chunk_header header;
    struct buffer streams[EVENT_STREAMS];
    uint64_t bytes;
};

struct outbox {
    pthread_t thread;
    pthread_mutex_t lock; /* for all but `parcels`, whose owner is known from first and count, and `out` */
    pthread_cond_t come, done;
    struct parcel parcels[OUTBOX_CHUNKS];
    unsigned first, count;
    uint64_t bytes; /* of these */
    bool ending;
    struct output out;         /* the thread's */
    uint64_t written, dropped; /* of `out`, when a chunk was done last */
    struct mt_error err;       /* the same */
};

/* The chunk to be written next; NULL when there will be no more. */
static struct parcel *next_parcel(struct outbox *box)
{
    pthread_mutex_lock(&box->lock);
    while (box->count == 0 && !box->ending)
        pthread_cond_wait(&box->come, &box->lock);
    struct parcel *p = box->count ? &box->parcels[box->first] : NULL;
    pthread_mutex_unlock(&box->lock);
    return p;
}

static void finish_parcel(struct outbox *box, const struct parcel *p)
{
    pthread_mutex_lock(&box->lock);
    box->first = (box->first + 1) % OUTBOX_CHUNKS;
    box->count--;
    box->bytes -= p->bytes;
    box->written = box->out.written;
    box->dropped = box->out.dropped;
    box->err = box->out.err;
    pthread_cond_signal(&box->done);
    pthread_mutex_unlock(&box->lock);
}

static void *work(void *arg)
{
    struct outbox *box = arg;
    for (struct parcel *p; (p = next_parcel(box));) {
        output_chunk(&box->out, &p->header, p->streams);
        finish_parcel(box, p);
    }
    return NULL;
}

/* A thread without signals: those that a write raises become its error. */
static bool start_thread(struct outbox *box)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&box->thread, &attributes, work, box) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return ok;
}

struct outbox *outbox_start(struct output *o)
{
    struct outbox *box = calloc(1, sizeof *box);
    if (!box)
        return NULL;
    box->out = *o;
    box->written = o->written;
    box->dropped = o->dropped;
    pthread_mutex_init(&box->lock, NULL);
    pthread_cond_init(&box->come, NULL);
    pthread_cond_init(&box->done, NULL);
    if (start_thread(box))
        return box;
    free(box);
    return NULL;
}

/* With the lock: wait until there is room for a chunk of so many bytes. */
static void wait_for_room(struct outbox *box, uint64_t bytes)
{
    while (box->count == OUTBOX_CHUNKS || (box->count && box->bytes + bytes > OUTBOX_BYTES))
        pthread_cond_wait(&box->done, &box->lock);
}

/* With the lock: tell the owner how it goes. An error of its own stays. */
static void bring_up_to_date(const struct outbox *box, struct output *o)
{
    o->written = box->written;
    o->dropped = box->dropped;
    if (o->err.code == MT_E_NONE)
        o->err = box->err;
}

/* Exchange a place's empty buffers for those of a chunk. */
static void fill(struct parcel *p, const struct chunk_header *h, struct buffer *streams, uint64_t bytes)
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

void outbox_put(struct outbox *box, struct output *o, const struct chunk_header *h, struct buffer *streams)
{
    uint64_t bytes = bytes_of(h, streams);
    pthread_mutex_lock(&box->lock);
    wait_for_room(box, bytes);
    fill(&box->parcels[(box->first + box->count) % OUTBOX_CHUNKS], h, streams, bytes);
    box->count++;
    box->bytes += bytes;
    bring_up_to_date(box, o);
    pthread_cond_signal(&box->come);
    pthread_mutex_unlock(&box->lock);
}

void outbox_wait(struct outbox *box, struct output *o)
{
    pthread_mutex_lock(&box->lock);
    while (box->count)
        pthread_cond_wait(&box->done, &box->lock);
    bring_up_to_date(box, o);
    pthread_mutex_unlock(&box->lock);
}

void outbox_end(struct outbox *box, struct output *o)
{
    struct mt_error own = o->err;
    pthread_mutex_lock(&box->lock);
    box->ending = true;
    pthread_cond_signal(&box->come);
    pthread_mutex_unlock(&box->lock);
    pthread_join(box->thread, NULL);
    *o = box->out;
    if (own.code != MT_E_NONE)
        o->err = own;
    for (unsigned i = 0; i < OUTBOX_CHUNKS; i++)
        for (unsigned k = 0; k < EVENT_STREAMS; k++)
            buffer_free(&box->parcels[i].streams[k]);
    pthread_cond_destroy(&box->come);
    pthread_cond_destroy(&box->done);
    pthread_mutex_destroy(&box->lock);
    free(box);
}
