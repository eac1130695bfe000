/* chunk_reader.c - reads a binary memtrace chunk by chunk.
 *
 * Before any part of a chunk is used, the hash of its header, the hash of its payload and its ordinals, which must
 * continue those of the chunk before, are checked. When salvaging, an invalid chunk is recorded and skipped, and the
 * next chunk is found by its magic number. The loss is delivered as an event of kind MT_LOST.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/read/reader_impl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* Results of handling a chunk. */
enum chunk_result { CHUNK_DONE, CHUNK_DAMAGED, CHUNK_FAILED, FILE_ENDED };

static bool salvaging(const struct mt_reader *r)
{
    return r->flags & MT_OPEN_SALVAGE;
}

/* Handle damage: it is an error, or, when salvaging, it is recorded. */
static enum chunk_result damaged(struct mt_reader *r, uint64_t offset, const char *what)
{
    if (salvaging(r)) {
        reader_note(r, offset, what);
        return CHUNK_DAMAGED;
    }
    mt_fail(&r->err, MT_E_CORRUPT, offset,
            r->of_ops ? "damaged ops file at offset %llu: %s; make it again"
                      : "damaged at offset %llu: %s; --salvage reads the rest",
            (unsigned long long)offset, what);
    return CHUNK_FAILED;
}

static enum chunk_result failed(struct mt_reader *r, const struct mt_error *err)
{
    mt_fail(&r->err, err->code, err->offset, "%s", err->text);
    return CHUNK_FAILED;
}

/* Handle an early end of the file. */
static enum chunk_result truncated(struct mt_reader *r, const char *where)
{
    uint64_t offset = r->in.offset;
    if (r->in.err.code != MT_E_NONE)
        return failed(r, &r->in.err);
    if (salvaging(r)) {
        reader_note(r, offset, where);
        input_skip(&r->in, input_available(&r->in));
        return FILE_ENDED;
    }
    if (!r->of_ops && input_is_growing(&r->in)) {
        mt_fail(&r->err, MT_E_GROWING, offset, "is still being written; it was read up to offset %llu",
                (unsigned long long)offset);
        return CHUNK_FAILED;
    }
    mt_fail(&r->err, MT_E_TRUNCATED, offset,
            r->of_ops
                ? "the ops file ends early at offset %llu: %s; make it again"
                : "cut off at offset %llu: %s; all before it was read, the recorder was killed or the copy "
                  "is incomplete",
            (unsigned long long)(offset + input_available(&r->in)), where);
    return CHUNK_FAILED;
}

int binary_begin_chunks(struct mt_reader *r, uint32_t version)
{
    r->binary.kinds = kinds_of_version(version);
    r->binary.dec.salvage = salvaging(r);
    r->binary.stop = UINT64_MAX;
    r->binary.dec.want_freed = r->flags & MT_OPEN_FREED;
    r->binary.zstd = ZSTD_createDCtx();
    return r->binary.zstd ? MT_OK : mt_fail_memory(&r->err);
}

int binary_begin(struct mt_reader *r)
{
    const uint8_t *p = input_bytes(&r->in);
    bool magic = memcmp(p, FILE_MAGIC, MAGIC_SIZE) == 0;
    if (input_available(&r->in) < FILE_HEADER_SIZE)
        return mt_fail(&r->err, MT_E_TRUNCATED, 0, "cut off inside the file header; nothing can be read");
    uint32_t version = load_u32(p + 8);
    bool known = version >= MT_OLDEST_VERSION && version <= MT_FORMAT_VERSION;
    if (binary_begin_chunks(r, known ? version : MT_FORMAT_VERSION) != MT_OK)
        return MT_ERROR;
    if (magic && !known && !salvaging(r))
        return mt_fail(&r->err, MT_E_VERSION, 8,
                       "is of format version %u, this program reads versions %u to %u", version,
                       MT_OLDEST_VERSION, MT_FORMAT_VERSION);
    if (!magic || !known || load_u32(p + 12) != file_header_check(version))
        if (damaged(r, 0, "file header is wrong") == CHUNK_FAILED)
            return MT_ERROR;
    input_skip(&r->in, FILE_HEADER_SIZE);
    return MT_OK;
}

/* -- the lists of blocks at the end of a trace: those that are still live, and the containers; for programs that
 * need them before they read the trace, too.
 *
 * Their chunks are found by reading all chunk headers. Errors are not reported here: the list is then missing, and
 * reading the trace reports the error. -- */

/* Check a SURVIVORS chunk: is it well-formed, and does it list as many blocks as are live? */
static bool read_survivors(struct mt_reader *r, uint32_t size)
{
    struct id_list *s = &r->binary.survivors;
    return id_list_read(s, r->binary.raw, size, UINT64_MAX) &&
           (s->more || salvaging(r) || s->count == r->binary.dec.live);
}

/* Show the containers that the last chunk has added. */
static void dump_containers(struct mt_reader *r, uint64_t before)
{
    struct id_list *s = &r->binary.container_list;
    for (uint64_t i = before; i < s->count; i++) {
        line_start(&r->hook.buffer, "container", NO_ID);
        line_number(&r->hook.buffer, "handle", s->list[i] >> 1);
        if (s->list[i] & 1)
            line_number(&r->hook.buffer, "kept", 1);
        r->hook.line(r->hook.ctx, r->hook.buffer.text);
    }
}

/* Check a CONTAINERS chunk: is it well-formed, and does it list blocks of the trace? */
static bool read_containers(struct mt_reader *r, uint32_t size)
{
    struct id_list *s = &r->binary.container_list;
    const uint64_t before = s->count;
    s->keeps = r->hook.line != NULL;
    if (!id_list_read(s, r->binary.raw, size, 2 * r->binary.dec.handles))
        return false;
    if (r->hook.line)
        dump_containers(r, before);
    return true;
}

/* May a chunk of this type follow those of a list? next: the list that comes after it. */
static bool follows(const struct mt_reader *r, const struct id_list *list, uint8_t own, uint8_t next,
                    uint8_t type)
{
    if (!list->begun || type == own || type == CHUNK_INDEX)
        return true;
    return (type == CHUNK_END || type == next) && (!list->more || salvaging(r));
}

/* May a chunk of this type follow? After CONTAINERS and SURVIVORS chunks there are no events, and all of them are before
 * END, in this order. */
static bool fits_lists(const struct mt_reader *r, uint8_t type)
{
    return follows(r, &r->binary.container_list, CHUNK_CONTAINERS, CHUNK_SURVIVORS, type) &&
           follows(r, &r->binary.survivors, CHUNK_SURVIVORS, CHUNK_END, type);
}

/* Decompress the payload of a chunk of a list. The caller frees the result. NULL if it is damaged. */
static uint8_t *unpack_list(const uint8_t *payload, const struct chunk_header *h)
{
    uint32_t stored = h->stored_size - 8;
    if (XXH3_64bits(payload, h->stored_size) != h->payload_hash || load_u32(payload) != h->raw_size ||
        load_u32(payload + 4) != stored)
        return NULL;
    uint8_t *raw = malloc(h->raw_size + 1);
    if (raw && ZSTD_decompress(raw, h->raw_size, payload + 8, stored) == h->raw_size)
        return raw;
    free(raw);
    return NULL;
}

static bool take_at(const struct mt_reader *r, uint64_t at, const struct chunk_header *h,
                    struct id_list *list)
{
    uint8_t *payload = malloc(h->stored_size), *raw = NULL;
    if (payload &&
        pread(r->in.fd, payload, h->stored_size, (off_t)(at + CHUNK_HEADER_SIZE)) == (ssize_t)h->stored_size)
        raw = unpack_list(payload, h);
    bool taken = raw && id_list_read(list, raw, h->raw_size, UINT64_MAX);
    free(payload);
    free(raw);
    return taken;
}

/* Read the list in the chunks of a type; false if it is not there as a whole. */
static bool read_list(const struct mt_reader *r, enum chunk_type type, struct id_list *list)
{
    struct chunk_header h = {0};
    bool good = reader_is_plain(r);
    for (uint64_t at = FILE_HEADER_SIZE;
         good && at < r->in.file_size && reader_header_at(r, at, &h) && h.type != CHUNK_END;
         at += CHUNK_HEADER_SIZE + h.stored_size)
        good = h.type != type || take_at(r, at, &h, list);
    return good && list->begun && !list->more && h.type == CHUNK_END;
}

bool mt_survivors(struct mt_reader *r, uint64_t **ordinals, size_t *n)
{
    struct id_list list = {.keeps = true};
    bool whole = read_list(r, CHUNK_SURVIVORS, &list) && !salvaging(r);
    return id_list_finish(&list, whole, ordinals, n);
}

/* Read the list of containers ahead, if that was not done yet. */
static void find_containers(struct mt_reader *r)
{
    struct binary_reader *b = &r->binary;
    if (b->looked_for_containers || r->of_ops)
        return;
    b->looked_for_containers = true;
    b->containers = (struct id_list){.keeps = true};
    bool whole = !b->following && read_list(r, CHUNK_CONTAINERS, &b->containers);
    uint64_t *list;
    size_t n;
    id_list_finish(&b->containers, whole, &list, &n);
    b->dec.containers = list;
    b->dec.n_containers = n;
}

bool mt_has_containers(struct mt_reader *r)
{
    find_containers(r);
    return r->binary.dec.n_containers > 0;
}

/* -- payload -- */

static bool reserve_raw(struct binary_reader *b, size_t n)
{
    if (b->raw_capacity >= n && b->raw)
        return true;
    free(b->raw);
    b->raw = malloc(n + 1);
    b->raw_capacity = b->raw ? n : 0;
    return b->raw != NULL;
}

/* Read the stream table of a payload; false if it does not fit the header. */
static bool read_table(const struct chunk_header *h, const uint8_t *payload, uint32_t *raw, uint32_t *stored)
{
    unsigned n = chunk_streams(h->type);
    uint64_t raw_sum = 0, stored_sum = 8 * n;
    for (unsigned i = 0; i < n; i++) {
        raw[i] = load_u32(payload + 8 * i);
        stored[i] = load_u32(payload + 8 * i + 4);
        raw_sum += raw[i];
        stored_sum += stored[i];
    }
    return raw_sum == h->raw_size && stored_sum == h->stored_size;
}

static bool unpack_stream(struct binary_reader *b, uint8_t *to, uint32_t raw, const uint8_t *from,
                          uint32_t stored)
{
    if (raw == 0)
        return stored == 0;
    return ZSTD_decompressDCtx(b->zstd, to, raw, from, stored) == raw;
}

/* Is this stream of a chunk needed? */
static bool is_wanted(const struct binary_reader *b, const struct chunk_header *h, unsigned stream)
{
    bool events = h->type == CHUNK_EVENTS;
    return !b->dec.rare_only || !events || stream == STREAM_RARE ||
           (b->taker.take && stream == STREAM_TOKENS);
}

/* Decompress a payload into b->raw. Returns a description of the error, or NULL. */
static const char *unpack(struct binary_reader *b, const struct chunk_header *h, const uint8_t *payload,
                          uint32_t raw[EVENT_STREAMS])
{
    uint32_t stored[EVENT_STREAMS];
    if (XXH3_64bits(payload, h->stored_size) != h->payload_hash)
        return "checksum of a chunk is wrong";
    if (!read_table(h, payload, raw, stored))
        return "stream table of a chunk is wrong";
    if (!reserve_raw(b, h->raw_size))
        return "out of memory for a chunk";
    const uint8_t *from = payload + 8 * chunk_streams(h->type);
    uint8_t *to = b->raw;
    for (unsigned i = 0; i < chunk_streams(h->type); i++) {
        if (is_wanted(b, h, i) && !unpack_stream(b, to, raw[i], from, stored[i]))
            return "compressed data of a chunk are wrong";
        to += raw[i];
        from += stored[i];
    }
    return NULL;
}

/* -- chunks by type -- */

/* Do the ordinals of a chunk continue those of the chunk before? After lost chunks, compute how many events are
 * missing. */
static enum chunk_result check_order(struct mt_reader *r, const struct chunk_header *h)
{
    struct binary_reader *b = &r->binary;
    if (h->first_event == b->next_event && h->first_handle == b->dec.handles)
        return CHUNK_DONE;
    if (!salvaging(r) || h->first_event < b->next_event || h->first_handle < b->dec.handles)
        return damaged(r, b->chunk_offset, "a chunk is missing or duplicate before this place");
    decoder_lose(&b->dec, h->first_handle - b->dec.handles);
    b->lost += h->first_event - b->next_event;
    b->next_event = h->first_event;
    b->dec.handles = h->first_handle;
    b->adrift = true;
    return CHUNK_DONE;
}

static enum chunk_result begin_events(struct mt_reader *r, const struct chunk_header *h,
                                      const uint32_t *sizes)
{
    struct binary_reader *b = &r->binary;
    if ((b->adrift || !b->dec.checkpoint_whole) && !salvaging(r))
        return damaged(r, b->chunk_offset, "live blocks are missing before these events");
    if (!decoder_start(&b->dec, h, b->raw, sizes)) {
        mt_fail_memory(&r->err);
        return CHUNK_FAILED;
    }
    b->chunk = *h;
    b->in_chunk = true;
    r->stats.nanoseconds = h->nanoseconds;
    return CHUNK_DONE;
}

static void take_totals(struct mt_totals *t, const struct rec_end *end)
{
    *t = (struct mt_totals){.instructions = end->instructions,
                            .nanoseconds = end->nanoseconds,
                            .foreign = end->foreign,
                            .dropped = end->dropped,
                            .freed = end->freed};
    memcpy(t->events, end->events.of, sizeof t->events);
}

static enum chunk_result read_end(struct mt_reader *r, uint32_t size)
{
    struct cursor c = {.p = r->binary.raw, .end = r->binary.raw + size, .kinds = r->binary.kinds};
    struct rec_end end;
    if (cursor_byte(&c) != REC_END || !get_end(&c, &end) || c.p != c.end || end.ending >= MT_ENDINGS)
        return damaged(r, r->binary.chunk_offset, "END chunk is wrong");
    take_totals(&r->stats.totals, &end);
    uint64_t sum = end.freed;
    for (unsigned i = 0; i < MT_KINDS; i++)
        sum += r->stats.totals.events[i];
    if (sum != r->binary.next_event)
        return damaged(r, r->binary.chunk_offset, "totals in the END chunk do not add up");
    r->stats.ending = (enum mt_ending)end.ending;
    r->stats.nanoseconds = end.nanoseconds;
    r->binary.seen_end = true;
    if (r->hook.line) {
        dump_end(&r->hook.buffer, NO_ID, &end);
        r->hook.line(r->hook.ctx, r->hook.buffer.text);
    }
    return CHUNK_DONE;
}

static enum chunk_result read_defs(struct mt_reader *r, uint32_t size)
{
    struct cursor c = {.p = r->binary.raw, .end = r->binary.raw + size};
    if (r->binary.chunk_offset < r->binary.defs_end)
        return CHUNK_DONE;
    const char *wrong = defs_apply(&r->defs, &c, salvaging(r), &r->hook);
    r->binary.defs_end = r->binary.chunk_offset + 1;
    return wrong ? damaged(r, r->binary.chunk_offset, wrong) : CHUNK_DONE;
}

static enum chunk_result read_live(struct mt_reader *r, uint32_t size)
{
    struct binary_reader *b = &r->binary;
    struct cursor c = {.p = b->raw, .end = b->raw + size};
    const char *wrong = decoder_checkpoint(&b->dec, &c, b->adrift);
    if (wrong && salvaging(r)) {
        decoder_forget(&b->dec);
        b->adrift = true;
    }
    b->adrift &= !b->dec.checkpoint_whole;
    return wrong ? damaged(r, b->chunk_offset, wrong) : CHUNK_DONE;
}

static enum chunk_result read_snapshot(struct mt_reader *r, uint32_t size)
{
    struct cursor c = {.p = r->binary.raw, .end = r->binary.raw + size};
    if (!(r->flags & MT_OPEN_SNAPSHOTS) && !r->hook.line)
        return CHUNK_DONE;
    const char *wrong = snapshots_take(&r->snapshots, &c, &r->defs, r->binary.next_event, &r->hook);
    return wrong ? damaged(r, r->binary.chunk_offset, wrong) : CHUNK_DONE;
}

/* Discard a snapshot whose next part is missing, for example because the program was killed while it was written. */
static void check_snapshot(struct mt_reader *r, const struct chunk_header *h)
{
    if (r->snapshots.open && h->type != CHUNK_SNAPSHOT && h->type != CHUNK_DEFS)
        snapshots_drop(&r->snapshots);
}

static struct rec_chunk index_entry(const struct mt_reader *r, const struct chunk_header *h)
{
    return (struct rec_chunk){h->type, r->binary.chunk_offset, h->events, h->first_event, h->first_handle};
}

/* Update the checksum of all chunks so far. */
static uint64_t add_chunk(uint64_t sum, const struct rec_chunk *chunk)
{
    return XXH3_64bits_withSeed(chunk, sizeof *chunk, sum);
}

static enum chunk_result check_index(struct mt_reader *r, uint32_t size)
{
    struct cursor c = {.p = r->binary.raw, .end = r->binary.raw + size};
    struct rec_chunk chunk;
    uint64_t sum = 0;
    while (c.p < c.end) {
        if (cursor_byte(&c) != REC_CHUNK || !get_chunk(&c, &chunk) || chunk.offset >= r->binary.chunk_offset)
            return damaged(r, r->binary.chunk_offset, "INDEX chunk is wrong");
        sum = add_chunk(sum, &chunk);
    }
    if (sum != r->binary.chunks && r->stats.damaged_chunks == 0 && !r->binary.moved)
        return damaged(r, r->binary.chunk_offset, "INDEX chunk does not fit the chunks before it");
    r->binary.seen_index = true;
    r->binary.index_offset = r->binary.chunk_offset;
    return CHUNK_DONE;
}

/* Handle the end of a chunk, or an error in it. */
static enum chunk_result end_events(struct mt_reader *r)
{
    struct binary_reader *b = &r->binary;
    b->in_chunk = false;
    b->next_event = b->chunk.first_event + b->chunk.events - b->dec.left;
    b->lost += b->dec.lost;
    b->dec.lost = 0;
    return b->dec.wrong ? damaged(r, b->chunk_offset, b->dec.wrong) : CHUNK_DONE;
}

/* Process a chunk by its type. `sizes` are the sizes of its streams. */
static enum chunk_result apply_chunk(struct mt_reader *r, const struct chunk_header *h, const uint32_t *sizes)
{
    switch (h->type) {
    case CHUNK_DEFS:
        return read_defs(r, sizes[0]);
    case CHUNK_EVENTS:
        return begin_events(r, h, sizes);
    case CHUNK_CHECKPOINT:
        return read_live(r, sizes[0]);
    case CHUNK_SNAPSHOT:
        return read_snapshot(r, sizes[0]);
    case CHUNK_SURVIVORS:
        return read_survivors(r, sizes[0]) ? CHUNK_DONE
                                           : damaged(r, r->binary.chunk_offset,
                                                     "the list of blocks that are live at the end is wrong");
    case CHUNK_CONTAINERS:
        return read_containers(r, sizes[0])
                   ? CHUNK_DONE
                   : damaged(r, r->binary.chunk_offset, "the list of containers is wrong");
    case CHUNK_END:
        return read_end(r, sizes[0]);
    default:
        return check_index(r, sizes[0]);
    }
}

/* Pass a chunk that was processed to the taker, if there is one. */
static enum chunk_result give_chunk(struct mt_reader *r, const struct chunk_header *h, const uint8_t *payload,
                                    const uint32_t *sizes)
{
    struct binary_reader *b = &r->binary;
    if (!b->taker.take)
        return CHUNK_DONE;
    b->taker.take(b->taker.context, h, payload, b->raw, sizes);
    return b->in_chunk ? end_events(r) : CHUNK_DONE;
}

static enum chunk_result read_payload(struct mt_reader *r, const struct chunk_header *h,
                                      const uint8_t *payload)
{
    uint32_t raw[EVENT_STREAMS];
    const char *wrong = unpack(&r->binary, h, payload, raw);
    if (wrong)
        return damaged(r, r->binary.chunk_offset, wrong);
    if (r->binary.seen_end != (h->type == CHUNK_INDEX) || !fits_lists(r, h->type))
        return damaged(r, r->binary.chunk_offset, "chunks are missing or out of order at the end");
    enum chunk_result result = check_order(r, h);
    if (result != CHUNK_DONE)
        return result;
    check_snapshot(r, h);
    if (h->type != CHUNK_INDEX) {
        const struct rec_chunk entry = index_entry(r, h);
        r->binary.chunks = add_chunk(r->binary.chunks, &entry);
    }
    result = apply_chunk(r, h, raw);
    return result == CHUNK_DONE ? give_chunk(r, h, payload, raw) : result;
}

/* -- the sequence of chunks -- */

/* After a damaged header: continue at the next magic number of a chunk. */
static void resync(struct mt_reader *r)
{
    input_skip(&r->in, 1);
    for (;;) {
        size_t n = input_need(&r->in, 1 << 16);
        const uint8_t *p = input_bytes(&r->in), *at = n ? memmem(p, n, CHUNK_MAGIC, MAGIC_SIZE) : NULL;
        if (at) {
            input_skip(&r->in, (size_t)(at - p));
            return;
        }
        bool last = n < 1 << 16;
        input_skip(&r->in, last ? n : n - (MAGIC_SIZE - 1));
        if (last)
            return;
    }
}

/* After the INDEX chunk: read the trailer, after which nothing may follow. */
static enum chunk_result read_trailer(struct mt_reader *r)
{
    uint64_t offset, at = r->in.offset;
    if (input_need(&r->in, TRAILER_SIZE) < TRAILER_SIZE)
        return truncated(r, "inside the trailer");
    bool good = trailer_unpack(&offset, input_bytes(&r->in)) && offset == r->binary.index_offset;
    input_skip(&r->in, TRAILER_SIZE);
    if (good && input_need(&r->in, 1) == 0 && r->in.err.code == MT_E_NONE)
        return FILE_ENDED;
    enum chunk_result result = damaged(r, at, good ? "bytes after the end of the trace" : "trailer is wrong");
    return result == CHUNK_DAMAGED ? FILE_ENDED : result;
}

/* Handle the end of the input. */
static enum chunk_result at_end(struct mt_reader *r)
{
    if (r->binary.seen_end && r->in.err.code == MT_E_NONE)
        return FILE_ENDED;
    return truncated(r, "before its END chunk");
}

static enum chunk_result next_chunk(struct mt_reader *r)
{
    struct chunk_header h;
    if (r->in.offset >= r->binary.stop)
        return FILE_ENDED;
    find_containers(r);
    if (r->binary.seen_index)
        return read_trailer(r);
    size_t n = input_need(&r->in, CHUNK_HEADER_SIZE);
    r->binary.chunk_offset = r->in.offset;
    if (n < CHUNK_HEADER_SIZE)
        return n ? truncated(r, "inside a chunk header") : at_end(r);
    const char *wrong = chunk_header_unpack(&h, input_bytes(&r->in));
    if (wrong) {
        enum chunk_result result = damaged(r, r->binary.chunk_offset, wrong);
        if (result == CHUNK_DAMAGED)
            resync(r);
        return result;
    }
    if (input_need(&r->in, CHUNK_HEADER_SIZE + h.stored_size) < CHUNK_HEADER_SIZE + h.stored_size)
        return truncated(r, "inside a chunk");
    r->binary.dec.rare_only = r->binary.chunk_offset < r->binary.pass_until;
    enum chunk_result result = read_payload(r, &h, input_bytes(&r->in) + CHUNK_HEADER_SIZE);
    input_skip(&r->in, CHUNK_HEADER_SIZE + h.stored_size);
    return result;
}

int binary_go(struct mt_reader *r, const struct mt_seek_point *to)
{
    struct binary_reader *b = &r->binary;
    if (!input_seek(&r->in, to->offset)) {
        failed(r, &r->in.err);
        return MT_ERROR;
    }
    decoder_forget(&b->dec);
    b->dec.handles = to->handle;
    b->dec.checkpoint_whole = true;
    b->next_event = to->event;
    b->lost = 0;
    b->survivors = b->container_list = (struct id_list){0};
    b->in_chunk = b->seen_end = b->seen_index = b->adrift = false;
    b->moved = true;
    b->stop = UINT64_MAX;
    return MT_OK;
}

int binary_chunk(struct mt_reader *r)
{
    enum chunk_result result = r->err.code == MT_E_NONE ? next_chunk(r) : CHUNK_FAILED;
    return result == CHUNK_FAILED ? MT_ERROR : result == FILE_ENDED ? MT_END : MT_MORE;
}

/* -- events -- */

/* Make one event for all lost events. */
static size_t report_lost(struct mt_reader *r)
{
    r->events[0] = (struct mt_event){
        .kind = MT_LOST, .size = r->binary.lost, .time = r->stats.instructions, .thread = 1};
    r->binary.lost = 0;
    return 1;
}

static enum chunk_result step(struct mt_reader *r, size_t *n)
{
    *n = 0;
    if (r->binary.lost)
        *n = report_lost(r);
    else if (!r->binary.in_chunk)
        return next_chunk(r);
    else if (!(*n = decoder_events(&r->binary.dec, r->events, READER_BATCH)))
        return end_events(r);
    return CHUNK_DONE;
}

int binary_next(struct mt_reader *r, size_t *n)
{
    for (;;) {
        enum chunk_result result = step(r, n);
        if (*n)
            return MT_MORE;
        if (result == CHUNK_FAILED)
            return MT_ERROR;
        if (result == FILE_ENDED && !r->binary.lost)
            return MT_END;
    }
}
