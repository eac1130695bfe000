/* trace_copy.c - makes an ops file from a trace without decoding its accesses.
 *
 * The reader passes on each chunk that it has checked. Rare records are decoded as usual, so that a record of a block
 * that is not live, or of a slot that is not free, is an error here. An error in the encoding of accesses that the
 * checksums do not reveal is found only by readers of the result. A chunk is written after all of it was processed
 * without error.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/ops/trace_copy.h"
#include "memtrace/base/array.h"
#include "memtrace/base/compression.h"
#include "memtrace/base/error.h"
#include "memtrace/format/records.h"
#include "memtrace/ops/binary.h"
#include "memtrace/read/reader_impl.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct ops_copier {
    struct mt_reader *trace;
    struct ops_sink sink;
    bool resizes;
    bool unsure; /* the trace was left within a chunk, so its live blocks are not those of the file */
    struct chunk_payload payload; /* of the next chunk */
    struct buffer rare, tokens;   /* those of its streams that are encoded again */
    uint8_t *kept;                /* for each of its rare records: is it in `rare`? */
    size_t records, kept_room;
    uint32_t events_left_out;
    bool left_out;      /* at least one record was omitted */
    uint64_t *ordinals; /* by slot: ordinal of the live block, see memtrace/base/id_list.h */
    size_t slots;
    uint64_t events; /* number of events in the file; of these: */
    struct {
        uint64_t news, frees, moves;
    } of, before; /* `before`: without the current chunk */
    uint64_t handles;
};

static void pack_header(uint8_t out[OPS_COPY_HEADER], bool resizes)
{
    memcpy(out, OPS_MAGIC, OPS_MAGIC_SIZE - 1);
    out[7] = OPS_VERSION_COPIED;
    out[8] = OPS_ACCESS;
    out[9] = resizes ? OPS_COPY_RESIZES : 0;
    out[10] = OPS_CHUNKS;
    out[11] = 0;
    store_u32(out + 12, (uint32_t)XXH3_64bits(out, 12));
}

const char *ops_copy_header_unpack(const uint8_t in[OPS_COPY_HEADER], bool *resizes)
{
    *resizes = in[9] & OPS_COPY_RESIZES;
    if (load_u32(in + 12) != (uint32_t)XXH3_64bits(in, 12))
        return "checksum of the file's header is wrong";
    if (in[8] != OPS_ACCESS)
        return "unknown kind of file";
    if (in[9] > OPS_COPY_RESIZES || in[10] != OPS_CHUNKS || in[11])
        return "the file's header has unknown properties";
    return NULL;
}

/* -- rare records -- */

static bool note_record(struct ops_copier *c, bool kept)
{
    if (!array_grow(&c->kept, &c->kept_room, c->records + 1, sizeof *c->kept))
        return false;
    c->kept[c->records++] = kept;
    c->left_out |= !kept;
    return true;
}

/* Store the ordinal of a new block. A Resize makes a new block if it is read as an F and an N. */
static bool note_block(struct ops_copier *c, uint32_t slot)
{
    if (!array_grow(&c->ordinals, &c->slots, (size_t)slot + 1, sizeof *c->ordinals))
        return false;
    c->ordinals[slot] = c->of.news + (c->resizes ? 0 : c->of.moves) - 1;
    return true;
}

static bool put_beginning(struct ops_copier *c, const struct mt_event *e)
{
    const struct rec_new r = {.slot = e->slot, .addr = e->addr, .size = e->size};
    put_new(&c->rare, &r);
    c->of.news++;
    return note_block(c, e->slot);
}

static bool put_ending(struct ops_copier *c, const struct mt_event *e)
{
    const struct rec_free r = {.slot = e->slot};
    put_free(&c->rare, &r);
    c->of.frees++;
    return true;
}

static bool put_move(struct ops_copier *c, const struct mt_event *e)
{
    const struct rec_resize r = {.slot = e->slot, .moved = (int64_t)(e->addr - e->old_addr), .size = e->size};
    put_resize(&c->rare, &r);
    c->of.moves++;
    return c->resizes || note_block(c, e->slot);
}

static bool put_system_access(struct ops_copier *c, const struct mt_event *e)
{
    const struct rec_touch r = {.kind = e->kind, .slot = e->slot, .offset = e->offset, .size = e->size};
    put_touch(&c->rare, &r);
    return true;
}

/* Encode a record again if its event, *e, is an operation. */
static bool take_record(struct ops_copier *c, uint8_t code, const struct mt_event *e)
{
    switch (code) {
    case REC_NEW:
    case REC_INHERIT:
    case REC_HELD:
        return put_beginning(c, e) && note_record(c, true);
    case REC_FREE:
        return put_ending(c, e) && note_record(c, true);
    case REC_RESIZE:
        return put_move(c, e) && note_record(c, true);
    case REC_TOUCH:
        return put_system_access(c, e) && note_record(c, true);
    case REC_STOP:
        put_stop(&c->rare, NULL);
        return note_record(c, true);
    case REC_THREAD:
        return note_record(c, false);
    default:
        c->events_left_out++;
        return note_record(c, false);
    }
}

/* Process all rare records of the chunk that the decoder has begun; false and d->wrong if one is invalid. */
static bool take_records(struct ops_copier *c, struct decoder *d)
{
    buffer_reset(&c->rare);
    c->records = 0;
    c->events_left_out = 0;
    c->left_out = false;
    while (!d->finished && !d->wrong) {
        const struct cursor *at = &d->streams[STREAM_RARE];
        const uint8_t code = at->p < at->end ? *at->p : 0;
        struct mt_event e;
        decoder_rare_event(d, &e);
        if (!d->wrong && !take_record(c, code, &e))
            d->wrong = "out of memory for a chunk";
    }
    return !d->wrong;
}

/* -- tokens -- */

static void put_token(struct buffer *b, uint64_t run, unsigned misses)
{
    buffer_byte(b, (uint8_t)((run < RUN_LONG ? run : RUN_LONG) << 3 | misses));
    if (run >= RUN_LONG)
        buffer_uvarint(b, run - RUN_LONG);
}

/* Encode tokens without the omitted records. The runs before and after such a record become one. */
static bool take_tokens(struct ops_copier *c, struct cursor in)
{
    uint64_t run = 0;
    size_t record = 0;
    buffer_reset(&c->tokens);
    while (in.p < in.end && record < c->records && run <= MAX_CHUNK_EVENTS) {
        const uint8_t token = cursor_byte(&in);
        const unsigned misses = token & 7;
        run += token >> 3;
        if (token >> 3 == RUN_LONG)
            run += cursor_uvarint(&in);
        if (misses || c->kept[record++]) {
            put_token(&c->tokens, run, misses);
            run = 0;
        }
    }
    return !in.bad && in.p == in.end && record == c->records && run == 0;
}

/* -- chunks -- */

static void fail_memory_if(struct ops_copier *c, bool failed)
{
    if (failed)
        mt_fail_memory(&c->sink.err);
}

/* Write the payload as a chunk with the type and number of events of h. */
static void write_chunk(struct ops_copier *c, struct chunk_header h)
{
    const struct buffer *bytes = &c->payload.bytes;
    uint8_t header[CHUNK_HEADER_SIZE];
    fail_memory_if(c, bytes->failed);
    if (c->sink.err.code != MT_E_NONE)
        return;
    payload_end(&c->payload, &h);
    h.first_event = c->events;
    h.first_handle = c->handles;
    h.payload_hash = XXH3_64bits(bytes->data, h.stored_size);
    chunk_header_pack(&h, header);
    ops_sink_write(&c->sink, header, sizeof header);
    ops_sink_write(&c->sink, bytes->data, h.stored_size);
    c->events += h.events;
}

/* Write a chunk of one stream. */
static void write_stream(struct ops_copier *c, uint8_t type, const struct buffer *s)
{
    fail_memory_if(c, s->failed);
    payload_begin(&c->payload, type);
    payload_add(&c->payload, 0, s);
    write_chunk(c, (struct chunk_header){.type = type});
}

/* The stream of an EVENTS chunk that is encoded again; NULL if it is copied. */
static const struct buffer *new_stream(const struct ops_copier *c, unsigned stream)
{
    if (stream == STREAM_RARE)
        return &c->rare;
    return stream == STREAM_TOKENS && c->left_out ? &c->tokens : NULL;
}

static void write_events(struct ops_copier *c, const struct chunk_header *h, const uint8_t *payload)
{
    const unsigned n = chunk_streams(h->type);
    const uint8_t *from = payload + 8 * n;
    fail_memory_if(c, c->rare.failed || c->tokens.failed);
    payload_begin(&c->payload, h->type);
    for (unsigned i = 0; i < n; i++) {
        const struct buffer *anew = new_stream(c, i);
        const uint32_t stored = load_u32(payload + 8 * i + 4);
        if (anew)
            payload_add(&c->payload, i, anew);
        else
            payload_add_stored(&c->payload, i, from, load_u32(payload + 8 * i), stored);
        from += stored;
    }
    write_chunk(c, (struct chunk_header){.type = h->type, .events = h->events - c->events_left_out});
}

static void take_events(struct ops_copier *c, const struct chunk_header *h, const uint8_t *payload,
                        const uint8_t *raw, const uint32_t *sizes)
{
    struct decoder *d = &c->trace->binary.dec;
    const struct cursor tokens = {.p = raw, .end = raw + sizes[STREAM_TOKENS]};
    c->before = c->of;
    if (take_records(c, d) && c->left_out && !take_tokens(c, tokens))
        d->wrong = "tokens do not fit the records of the chunk";
    if (d->wrong) {
        c->unsure = true;
        c->of = c->before;
        return;
    }
    c->trace->stats.events += h->events;
    if (h->events > c->events_left_out) {
        write_events(c, h, payload);
        c->handles = d->handles;
    }
}

/* -- definitions -- */

/* Skip a record that is omitted, whose code has been read. */
static bool pass(uint8_t code, struct cursor *in)
{
    switch (code) {
#define RECORD(NAME, name, code, fields)                                                                     \
    case REC_##NAME: {                                                                                       \
        struct rec_##name r;                                                                                 \
        return get_##name(in, &r);                                                                           \
    }
#include "memtrace/format/records.def"
    default:
        return false;
    }
}

static bool take_site(struct cursor *in, struct buffer *out)
{
    struct rec_site r;
    if (!get_site(in, &r))
        return false;
    r.ip = r.frame = 0;
    put_site(out, &r);
    return true;
}

/* Copy a segment with its accesses, which are encoded independently of what precedes them. It begins at `start`. */
static bool take_segment(struct cursor *in, struct buffer *out, const uint8_t *start)
{
    struct rec_segment s;
    struct rec_access a;
    bool good = get_segment(in, &s);
    for (uint64_t i = 0; good && i < s.accesses; i++)
        good = cursor_byte(in) == REC_ACCESS && get_access(in, &a);
    if (good)
        buffer_append(out, start, (size_t)(in->p - start));
    return good;
}

static bool take_definition(struct cursor *in, struct buffer *out)
{
    const uint8_t *start = in->p, code = cursor_byte(in);
    if (code == REC_SITE)
        return take_site(in, out);
    return code == REC_SEGMENT ? take_segment(in, out, start) : pass(code, in);
}

/* Copy the records that are needed. They are valid, because the reader has processed them. */
static void take_definitions(struct ops_copier *c, const uint8_t *raw, uint32_t size)
{
    struct cursor in = {.p = raw, .end = raw + size};
    struct buffer *out = &c->rare; /* not used between EVENTS chunks */
    struct rec_base base;
    bool good = cursor_byte(&in) == REC_BASE && get_base(&in, &base);
    buffer_reset(out);
    put_base(out, &(struct rec_base){1, 1, 1, good ? base.sites : 0, 1, 0});
    const size_t empty = buffer_size(out);
    while (good && in.p < in.end)
        good = take_definition(&in, out);
    if (!good)
        mt_fail(&c->sink.err, MT_E_CORRUPT, c->trace->binary.chunk_offset,
                "cannot copy the definitions of the trace at offset %llu",
                (unsigned long long)c->trace->binary.chunk_offset);
    if (buffer_size(out) > empty)
        write_stream(c, CHUNK_DEFS, out);
}

/* -- the file -- */

static void take(void *context, const struct chunk_header *h, const uint8_t *payload, const uint8_t *raw,
                 const uint32_t *sizes)
{
    struct ops_copier *c = context;
    if (h->type == CHUNK_EVENTS)
        take_events(c, h, payload, raw, sizes);
    else if (h->type == CHUNK_DEFS)
        take_definitions(c, raw, sizes[0]);
}

bool ops_can_copy(const struct mt_reader *trace)
{
    return !trace->stats.is_text && !(trace->flags & MT_OPEN_SALVAGE) && !trace->binary.moved;
}

struct ops_copier *ops_copier_new(struct mt_reader *trace, int fd, bool resizes, struct mt_error *err)
{
    uint8_t header[OPS_COPY_HEADER];
    struct ops_copier *c = calloc(1, sizeof *c);
    if (!c || !payload_init(&c->payload, COMPRESSION_LEVEL)) {
        free(c);
        mt_fail_memory(err);
        return NULL;
    }
    ops_sink_init(&c->sink, fd, false);
    c->trace = trace;
    c->resizes = resizes;
    mt_pass_accesses(trace);
    trace->binary.taker = (struct chunk_taker){take, c};
    pack_header(header, resizes);
    ops_sink_write(&c->sink, header, sizeof header);
    return c;
}

int ops_copier_next(struct ops_copier *c)
{
    if (c->sink.err.code != MT_E_NONE)
        return MT_END;
    return binary_chunk(c->trace);
}

uint64_t ops_copier_operations(const struct ops_copier *c)
{
    return c->events + (c->resizes ? 0 : c->of.moves);
}

static void write_survivors(struct ops_copier *c)
{
    const struct decoder *d = &c->trace->binary.dec;
    const uint64_t *list = c->ordinals;
    uint64_t next = 0;
    size_t n = 0;
    for (uint32_t slot = 0; slot < d->block_count; slot++)
        if (d->blocks[slot].heap != NO_HEAP)
            c->ordinals[n++] = c->ordinals[slot];
    id_list_sort(c->ordinals, n);
    do {
        buffer_reset(&c->rare);
        if (buffer_reserve(&c->rare, ID_LIST_SIZE))
            c->rare.p += id_list_write(c->rare.p, &list, &n, &next);
        write_stream(c, CHUNK_SURVIVORS, &c->rare);
    } while (n && c->sink.err.code == MT_E_NONE);
}

/* The kinds of accesses are not known separately. */
static void write_end(struct ops_copier *c)
{
    const uint64_t accesses = c->events - c->of.news - c->of.frees - c->of.moves;
    const struct rec_end end = {.events = {.of = {[MT_NEW] = c->of.news,
                                                  [MT_FREE] = c->of.frees,
                                                  [MT_RESIZE] = c->of.moves,
                                                  [MT_LOAD] = accesses},
                                           .kinds = kinds_of_version(OPS_CHUNKS)}};
    buffer_reset(&c->rare);
    put_end(&c->rare, &end);
    write_stream(c, CHUNK_END, &c->rare);
}

static void copier_free(struct ops_copier *c)
{
    c->trace->binary.taker = (struct chunk_taker){0};
    payload_free(&c->payload);
    buffer_free(&c->rare);
    buffer_free(&c->tokens);
    free(c->kept);
    free(c->ordinals);
    free(c);
}

int ops_copier_finish(struct ops_copier *c, struct mt_error *err)
{
    if (!c->unsure)
        write_survivors(c);
    write_end(c);
    ops_sink_finish(&c->sink);
    int result = c->sink.err.code == MT_E_NONE ? MT_OK : MT_ERROR;
    if (err)
        *err = c->sink.err;
    copier_free(c);
    return result;
}
