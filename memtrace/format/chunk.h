/* chunk.h - the outer structure of a memtrace file: magic numbers, chunk headers, limits.
 *
 * The contents of chunks are in records.def and predictor.h. All numbers are little-endian. The specification is
 * docs/memtrace-format.md.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef MEMTRACE_FORMAT_CHUNK_H
#define MEMTRACE_FORMAT_CHUNK_H

#include "memtrace/base/array.h"
#include "memtrace/base/buffer.h"
#include "memtrace/memtrace.h"

#include <zstd.h>

/* The file begins with the magic number, u32 version, u32 check of the version. As in PNG, the magic number
 * reveals transfers in text mode. */
#define FILE_MAGIC "\x89LJT\r\n\x1a\n"
#define FILE_HEADER_SIZE 16
/* Each chunk begins with this magic number, so that a reader finds the next chunk after damage. */
#define CHUNK_MAGIC "\xabljtCHK\n"
/* The file ends with the magic number, u64 offset of the INDEX chunk, u64 XXH3 of these 16 bytes. */
#define TRAILER_MAGIC "\xabljtIDX\n"
#define MAGIC_SIZE 8
#define TRAILER_SIZE 24
#define CHUNK_HEADER_SIZE 72

/* Limits. A decoder rejects anything larger before it allocates memory. */
#define MAX_CHUNK_RAW (64u << 20)    /* sum of the decompressed sizes of all streams of a chunk */
#define MAX_CHUNK_STORED (65u << 20) /* bytes of a chunk after its header */
#define MAX_CHUNK_EVENTS (1u << 22)
#define MAX_STRING 65535u
#define MAX_PROTO_LINES (1u << 24)    /* encoded size */
#define MAX_DEFINITIONS TABLE_MOST    /* number of definitions of each kind */
#define MAX_SNAPSHOT_ITEMS (1u << 30) /* number of objects, and of links, of a snapshot */
#define MAX_LIVE_BLOCKS (1u << 30)

enum chunk_type {
    CHUNK_DEFS = 1,
    CHUNK_EVENTS = 2,
    CHUNK_END = 3,
    CHUNK_INDEX = 4,
    CHUNK_CHECKPOINT = 5,
    CHUNK_SNAPSHOT = 6,
    CHUNK_SURVIVORS = 7,
    CHUNK_CONTAINERS = 8
};

/* Streams of an EVENTS chunk, in the order of the file. Chunks of other types have one stream. */
enum {
    STREAM_TOKENS,
    STREAM_SEGMENTS,
    STREAM_SLOTS,
    STREAM_OFFSETS,
    STREAM_RARE,
    STREAM_CODES, /* how the words of a segment differ from the guess */
    STREAM_AGES,  /* ages of recent words */
    EVENT_STREAMS
};

struct chunk_header {
    uint8_t type;
    uint32_t raw_size;    /* sum of the decompressed sizes of all streams */
    uint32_t stored_size; /* number of bytes after the header: stream table and compressed streams */
    uint32_t events;      /* number of events; 0 unless EVENTS */
    uint64_t first_event; /* number of events in the file before this chunk */
    uint64_t first_handle;
    uint64_t instructions; /* guest instructions at the first event */
    uint64_t nanoseconds;  /* wall clock time from the start of the trace to the writing of the chunk */
    uint64_t payload_hash; /* XXH3 of the stored_size bytes */
};

/* Number of streams of a chunk type, 0 for an unknown type. */
unsigned chunk_streams(uint8_t type);

void chunk_header_pack(const struct chunk_header *h, uint8_t out[CHUNK_HEADER_SIZE]);

/* Unpack and check a header. Returns a description of the error, or NULL. */
const char *chunk_header_unpack(struct chunk_header *h, const uint8_t in[CHUNK_HEADER_SIZE]);

/* The payload of a chunk that is being made: a table of the sizes of its streams, and the compressed streams.
 * bytes.failed: memory has run out. */
struct chunk_payload {
    ZSTD_CCtx *zstd;
    int level;
    struct buffer bytes;
    uint64_t raw; /* sum of the decompressed sizes */
};

/* False when out of memory. */
bool payload_init(struct chunk_payload *p, int level);
void payload_free(struct chunk_payload *p);
/* Begin the payload of a chunk of this type, whose streams are then added in order: compressed here, or as they are. */
void payload_begin(struct chunk_payload *p, uint8_t type);
void payload_add(struct chunk_payload *p, unsigned stream, const struct buffer *s);
void payload_add_stored(struct chunk_payload *p, unsigned stream, const uint8_t *from, uint32_t raw,
                        uint32_t stored);
/* Fill in the sizes of a header. */
void payload_end(const struct chunk_payload *p, struct chunk_header *h);

/* The check of a version: its inverted bits. */
uint32_t file_header_check(uint32_t version);
void file_header_pack(uint8_t out[FILE_HEADER_SIZE]);
void trailer_pack(uint64_t index_offset, uint8_t out[TRAILER_SIZE]);
/* Read the offset from a trailer; false if the trailer is invalid. */
bool trailer_unpack(uint64_t *index_offset, const uint8_t in[TRAILER_SIZE]);

uint32_t load_u32(const uint8_t *p);
uint64_t load_u64(const uint8_t *p);
void store_u32(uint8_t *p, uint32_t v);
void store_u64(uint8_t *p, uint64_t v);

#endif
