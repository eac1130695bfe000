/* chunk_writer.c - compresses streams into chunks and writes them to the file.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/write/chunk_writer.h"
#include "memtrace/base/compression.h"
#include "memtrace/base/error.h"
#include "memtrace/format/records.h"
#include "memtrace/write/chunk_queue.h"

#include <errno.h>
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
    *o = (struct chunk_writer){
        .fd = fd, .level = level ? level : COMPRESSION_LEVEL, .start = now(), .zstd = ZSTD_createCCtx()};
    if (!o->zstd)
        mt_fail_memory(&o->err);
    file_header_pack(header);
    write_all(o, header, sizeof header);
}

void chunk_writer_free(struct chunk_writer *o)
{
    ZSTD_freeCCtx(o->zstd);
    buffer_free(&o->payload);
    buffer_free(&o->index);
}

/* Append one compressed stream to the payload. `entry` is the offset of its entry in the stream table. */
static void pack_stream(struct chunk_writer *o, const struct buffer *s, size_t entry)
{
    size_t raw = buffer_size(s), stored = 0;
    if (!buffer_reserve(&o->payload, ZSTD_compressBound(raw)))
        return;
    if (raw)
        stored = ZSTD_compressCCtx(o->zstd, o->payload.p, ZSTD_compressBound(raw), s->data, raw, o->level);
    if (ZSTD_isError(stored)) {
        mt_fail(&o->err, MT_E_MEMORY, o->written, "cannot compress a chunk: %s", ZSTD_getErrorName(stored));
        return;
    }
    o->payload.p += stored;
    store_u32(o->payload.data + entry, (uint32_t)raw);
    store_u32(o->payload.data + entry + 4, (uint32_t)stored);
}

/* Begin a payload with a stream table of n entries, which are filled in later. */
static void begin_payload(struct chunk_writer *o, unsigned n)
{
    buffer_reset(&o->payload);
    if (buffer_reserve(&o->payload, 8 * n))
        o->payload.p += 8 * n;
}

static void end_payload(struct chunk_writer *o, struct chunk_header *h)
{
    if (o->payload.failed)
        mt_fail_memory(&o->err);
    h->stored_size = (uint32_t)buffer_size(&o->payload);
}

static void pack_payload(struct chunk_writer *o, struct chunk_header *h, const struct buffer *streams)
{
    unsigned n = chunk_streams(h->type);
    h->raw_size = 0;
    begin_payload(o, n);
    for (unsigned i = 0; i < n && !o->payload.failed; i++) {
        pack_stream(o, &streams[i], 8 * i);
        h->raw_size += (uint32_t)buffer_size(&streams[i]);
    }
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
 * for them. Checkpoints are not refused here: checkpoint.c does not write them when they would need that room. */
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
    h->payload_hash = XXH3_64bits(o->payload.data, h->stored_size);
    chunk_header_pack(h, header);
    note_chunk(o, h);
    write_all(o, header, sizeof header);
    write_all(o, o->payload.data, h->stored_size);
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

/* Append a stream that is compressed already to the payload. */
static void append_stored(struct chunk_writer *o, const uint8_t *from, uint32_t raw, uint32_t stored,
                          size_t entry)
{
    buffer_append(&o->payload, from, stored);
    if (o->payload.failed)
        return;
    store_u32(o->payload.data + entry, raw);
    store_u32(o->payload.data + entry + 4, stored);
}

void chunk_writer_copy(struct chunk_writer *o, const struct chunk_header *h, const uint8_t *payload,
                       const struct buffer *const *anew)
{
    const unsigned n = chunk_streams(h->type);
    const uint8_t *from = payload + 8 * n;
    struct chunk_header copy = *h;
    copy.raw_size = 0;
    begin_payload(o, n);
    for (unsigned i = 0; i < n && !o->payload.failed; i++) {
        const uint32_t raw = load_u32(payload + 8 * i), stored = load_u32(payload + 8 * i + 4);
        if (anew[i])
            pack_stream(o, anew[i], 8 * i);
        else
            append_stored(o, from, raw, stored, 8 * i);
        copy.raw_size += anew[i] ? (uint32_t)buffer_size(anew[i]) : raw;
        from += stored;
    }
    end_payload(o, &copy);
    if (o->err.code == MT_E_NONE)
        write_payload(o, &copy);
}

void chunk_writer_put(struct chunk_writer *o, struct chunk_header *h, struct buffer *streams)
{
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
