/* chunk.c - packs, unpacks and checks the file header, chunk headers and the trailer; makes payloads.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/format/chunk.h"

#include <string.h>
#include <xxhash.h>

uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t load_u64(const uint8_t *p)
{
    return load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

void store_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

void store_u64(uint8_t *p, uint64_t v)
{
    store_u32(p, (uint32_t)v);
    store_u32(p + 4, (uint32_t)(v >> 32));
}

unsigned chunk_streams(uint8_t type)
{
    switch (type) {
    case CHUNK_EVENTS:
        return EVENT_STREAMS;
    case CHUNK_DEFS:
    case CHUNK_END:
    case CHUNK_INDEX:
    case CHUNK_CHECKPOINT:
    case CHUNK_SNAPSHOT:
    case CHUNK_SURVIVORS:
    case CHUNK_CONTAINERS:
        return 1;
    default:
        return 0;
    }
}

void chunk_header_pack(const struct chunk_header *h, uint8_t out[CHUNK_HEADER_SIZE])
{
    memcpy(out, CHUNK_MAGIC, MAGIC_SIZE);
    store_u32(out + 8, h->type); /* the flags and the reserved bytes above the type byte are 0 */
    store_u32(out + 12, h->raw_size);
    store_u32(out + 16, h->stored_size);
    store_u32(out + 20, h->events);
    store_u64(out + 24, h->first_event);
    store_u64(out + 32, h->first_handle);
    store_u64(out + 40, h->instructions);
    store_u64(out + 48, h->nanoseconds);
    store_u64(out + 56, h->payload_hash);
    store_u64(out + 64, XXH3_64bits(out, 64));
}

static void unpack_fields(struct chunk_header *h, const uint8_t in[CHUNK_HEADER_SIZE])
{
    h->type = in[8];
    h->raw_size = load_u32(in + 12);
    h->stored_size = load_u32(in + 16);
    h->events = load_u32(in + 20);
    h->first_event = load_u64(in + 24);
    h->first_handle = load_u64(in + 32);
    h->instructions = load_u64(in + 40);
    h->nanoseconds = load_u64(in + 48);
    h->payload_hash = load_u64(in + 56);
}

static const char *check_limits(const struct chunk_header *h)
{
    if (h->raw_size > MAX_CHUNK_RAW || h->stored_size > MAX_CHUNK_STORED || h->events > MAX_CHUNK_EVENTS)
        return "chunk is larger than the format allows";
    if (h->stored_size < 8 * chunk_streams(h->type))
        return "chunk is too small for its stream table";
    if ((h->type == CHUNK_EVENTS) != (h->events > 0))
        return "event count does not fit the chunk type";
    return NULL;
}

const char *chunk_header_unpack(struct chunk_header *h, const uint8_t in[CHUNK_HEADER_SIZE])
{
    if (memcmp(in, CHUNK_MAGIC, MAGIC_SIZE) != 0)
        return "no chunk begins here";
    if (load_u64(in + 64) != XXH3_64bits(in, 64))
        return "checksum of the chunk header is wrong";
    unpack_fields(h, in);
    if (in[9] || in[10] || in[11] || chunk_streams(h->type) == 0)
        return "chunk of an unknown type";
    return check_limits(h);
}

bool payload_init(struct chunk_payload *p, int level)
{
    *p = (struct chunk_payload){.zstd = ZSTD_createCCtx(), .level = level};
    return p->zstd != NULL;
}

void payload_free(struct chunk_payload *p)
{
    ZSTD_freeCCtx(p->zstd);
    buffer_free(&p->bytes);
}

void payload_begin(struct chunk_payload *p, uint8_t type)
{
    const size_t table = 8 * chunk_streams(type);
    buffer_reset(&p->bytes);
    p->raw = 0;
    if (buffer_reserve(&p->bytes, table))
        p->bytes.p += table;
}

/* Fill in the sizes of a stream in the table. */
static void note_stream(struct chunk_payload *p, unsigned stream, size_t raw, size_t stored)
{
    store_u32(p->bytes.data + 8 * stream, (uint32_t)raw);
    store_u32(p->bytes.data + 8 * stream + 4, (uint32_t)stored);
    p->raw += raw;
}

void payload_add(struct chunk_payload *p, unsigned stream, const struct buffer *s)
{
    struct buffer *b = &p->bytes;
    const size_t raw = buffer_size(s), room = ZSTD_compressBound(raw);
    if (b->failed || !buffer_reserve(b, room))
        return;
    const size_t stored = raw ? ZSTD_compressCCtx(p->zstd, b->p, room, s->data, raw, p->level) : 0;
    if (ZSTD_isError(stored)) { /* which happens only when zstd has no memory */
        b->failed = true;
        return;
    }
    b->p += stored;
    note_stream(p, stream, raw, stored);
}

void payload_add_stored(struct chunk_payload *p, unsigned stream, const uint8_t *from, uint32_t raw,
                        uint32_t stored)
{
    buffer_append(&p->bytes, from, stored);
    if (!p->bytes.failed)
        note_stream(p, stream, raw, stored);
}

void payload_end(const struct chunk_payload *p, struct chunk_header *h)
{
    h->raw_size = (uint32_t)p->raw;
    h->stored_size = (uint32_t)buffer_size(&p->bytes);
}

uint32_t file_header_check(uint32_t version)
{
    return ~version;
}

void file_header_pack(uint8_t out[FILE_HEADER_SIZE])
{
    memcpy(out, FILE_MAGIC, MAGIC_SIZE);
    store_u32(out + 8, MT_FORMAT_VERSION);
    store_u32(out + 12, file_header_check(MT_FORMAT_VERSION));
}

void trailer_pack(uint64_t index_offset, uint8_t out[TRAILER_SIZE])
{
    memcpy(out, TRAILER_MAGIC, MAGIC_SIZE);
    store_u64(out + 8, index_offset);
    store_u64(out + 16, XXH3_64bits(out, 16));
}

bool trailer_unpack(uint64_t *index_offset, const uint8_t in[TRAILER_SIZE])
{
    if (memcmp(in, TRAILER_MAGIC, MAGIC_SIZE) != 0 || load_u64(in + 16) != XXH3_64bits(in, 16))
        return false;
    *index_offset = load_u64(in + 8);
    return true;
}
