/* writer.c - the part of `struct mt_writer` that writes events: heap events, accesses, chunks, the end.
 *
 * Each function takes a few nanoseconds as long as the chunk is not full. A full chunk is compressed and written at
 * once. After an error, events are only counted as dropped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/array.h"
#include "memtrace/base/error.h"
#include "memtrace/base/id_list.h"
#include "memtrace/stream.h"
#include "memtrace/write/writer_impl.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_CHUNK_EVENTS (1u << 20)
/* A chunk is ended when its streams have this size, even if it has few events. */
#define CHUNK_FULL (32u << 20)
/* Number of events between two checks of that size. They take at most 8 MB. */
#define CHECK_EVENTS (1u << 16)

/* From now on readers do not know the last access and the last call of the thread. */
static void forget_call(struct mt_writer *w)
{
    w->call_frame = 0;
    w->call_accesses = writer_accesses(w);
}

/* Begin a chunk with the predictor in its initial state. */
static void start_chunk(struct mt_writer *w)
{
    encoder_start(&w->enc, w->totals.instructions);
    w->chunk_instructions = w->totals.instructions;
    w->chunk_first_handle = w->handles;
    w->chunk_thread = 1;
    forget_call(w);
    w->check_at = w->chunk_events < CHECK_EVENTS ? w->chunk_events : CHECK_EVENTS;
}

struct mt_writer *mt_writer_new(int fd, const struct mt_writer_options *opts, struct mt_error *err)
{
    static const struct mt_writer_options none;
    struct mt_writer *w = calloc(1, sizeof *w);
    if (!w) {
        mt_fail_memory(err);
        return NULL;
    }
    opts = opts ? opts : &none;
    chunk_writer_init(&w->out, fd, opts->level);
    bool ok = encoder_init(&w->enc) & blockmap_init(&w->map) & freed_init(&w->freed, opts->forget_freed) &
              unsampled_init(&w->unsampled, &opts->sample, opts->forget_freed) & writer_defs_init(w) &
              writer_lua_init(w);
    if (!ok)
        mt_fail_memory(&w->out.err);
    w->thread = 1;
    w->background = opts->background;
    w->beside = opts->beside;
    w->attached = opts->attached;
    w->checkpoint_interval = opts->checkpoint_interval;
    w->chunk_events = opts->chunk_events ? opts->chunk_events : DEFAULT_CHUNK_EVENTS;
    if (w->chunk_events > MAX_CHUNK_EVENTS)
        w->chunk_events = MAX_CHUNK_EVENTS;
    if (!writer_failed(w)) {
        start_chunk(w);
        return w;
    }
    if (err)
        *err = w->out.err;
    mt_writer_finish(w, MT_ENDING_UNKNOWN, NULL);
    return NULL;
}

void mt_writer_thread(struct mt_writer *w, uint16_t thread)
{
    w->thread = thread;
}

void mt_writer_time(struct mt_writer *w, uint64_t instructions)
{
    if (instructions > w->totals.instructions)
        w->totals.instructions = instructions;
}

/* -- chunks -- */

void writer_put_chunk(struct mt_writer *w, enum chunk_type type, struct buffer *b)
{
    struct chunk_header h = {.type = (uint8_t)type,
                             .first_event = w->chunk_first_event,
                             .first_handle = w->handles,
                             .instructions = w->totals.instructions};
    chunk_writer_put(&w->out, &h, b);
    buffer_reset(b);
}

/* -- checkpoints: CHECKPOINT chunks that list all live blocks, so that a reader can begin there --
 *
 * Checkpoints repeat information of the events before them. They are written rarely enough to stay below two percent
 * of the file, however many blocks are live. */

/* Minimum number of EVENTS chunks between two checkpoints. */
#define CHECKPOINT_INTERVAL 4
/* Minimum bytes of other chunks for each byte of a checkpoint, and the estimated size of a checkpoint. */
#define CHECKPOINT_SHARE 50
#define CHECKPOINT_BLOCK_BYTES 8
#define CHECKPOINT_CHUNK_BYTES 200
/* Maximum number of blocks in one CHECKPOINT chunk. It is far below what the format allows. */
#define CHECKPOINT_PART (1u << 20)

static bool is_due(const struct mt_writer *w)
{
    uint64_t cost = CHECKPOINT_CHUNK_BYTES + CHECKPOINT_BLOCK_BYTES * w->map.live;
    if (w->out.full || w->cut_off || (w->out.limit && w->out.written + 2 * cost > w->out.limit))
        return false;
    if (w->checkpoint_interval)
        return w->chunks_since_checkpoint >= w->checkpoint_interval;
    return w->chunks_since_checkpoint >= CHECKPOINT_INTERVAL &&
           w->out.written - w->checkpoint_written >= CHECKPOINT_SHARE * cost;
}

static void write_checkpoint(struct mt_writer *w)
{
    struct buffer b = {0};
    uint64_t done = 0;
    put_checkpoint(&b, &(struct rec_checkpoint){w->map.live, 0});
    for (uint32_t slot = 0; slot < w->map.used; slot++) {
        const struct block *block = &w->map.blocks[slot];
        if (block->heap == DEAD_HEAP)
            continue;
        if (done && done % CHECKPOINT_PART == 0) {
            writer_put_chunk(w, CHUNK_CHECKPOINT, &b);
            put_checkpoint(&b, &(struct rec_checkpoint){w->map.live, done});
        }
        put_block(&b, &(struct rec_block){slot, block->handle, block->base, block->size, block->heap});
        done++;
    }
    writer_put_chunk(w, CHUNK_CHECKPOINT, &b);
    buffer_free(&b);
}

/* Write a checkpoint if one is due. Called after each EVENTS chunk. */
static void check_checkpoint(struct mt_writer *w)
{
    w->chunks_since_checkpoint++;
    if (writer_failed(w) || !is_due(w))
        return;
    write_checkpoint(w);
    w->chunks_since_checkpoint = 0;
    w->checkpoint_written = w->out.written;
}

/* Save the totals after a chunk that fit into the file. */
static void note_kept(struct mt_writer *w)
{
    if (w->out.limit == 0 || w->out.full)
        return;
    w->kept = w->totals;
    w->kept_handles = w->handles;
}

static void end_chunk(struct mt_writer *w)
{
    struct chunk_header h = {.type = CHUNK_EVENTS,
                             .events = w->enc.count,
                             .first_event = w->chunk_first_event,
                             .first_handle = w->chunk_first_handle,
                             .instructions = w->chunk_instructions};
    writer_defs_flush(w);
    if (w->enc.count == 0)
        return;
    put_stop(encoder_rare(&w->enc), &(struct rec_stop){});
    chunk_writer_put(&w->out, &h, w->enc.streams);
    if (!w->out.full)
        w->chunk_first_event += w->enc.count;
    note_kept(w);
    check_checkpoint(w);
    start_chunk(w);
}

/* End the chunk if it is full. */
static void check_chunk(struct mt_writer *w)
{
    bool full = w->enc.count >= w->chunk_events || encoder_bytes(&w->enc) > CHUNK_FULL;
    if (full && w->background)
        chunk_writer_background(&w->out);
    if (full)
        end_chunk(w);
    else
        w->check_at =
            w->chunk_events - w->enc.count < CHECK_EVENTS ? w->chunk_events : w->enc.count + CHECK_EVENTS;
}

/* Called after each event or batch of accesses. */
void writer_end_event(struct mt_writer *w)
{
    if (w->enc.count >= w->check_at)
        check_chunk(w);
}

int mt_writer_flush(struct mt_writer *w)
{
    if (!writer_failed(w))
        end_chunk(w);
    chunk_writer_wait(&w->out);
    return writer_failed(w) ? MT_ERROR : MT_OK;
}

void writer_sync_thread(struct mt_writer *w)
{
    if (w->thread == w->chunk_thread)
        return;
    put_thread(encoder_rare(&w->enc), &(struct rec_thread){w->thread});
    w->chunk_thread = w->thread;
    forget_call(w);
}

/* Begin an event and increment its counter *count. */
static struct buffer *begin_event(struct mt_writer *w, uint64_t *count)
{
    if (writer_failed(w)) {
        w->totals.dropped++;
        return NULL;
    }
    writer_sync_thread(w);
    ++*count;
    w->enc.count++;
    return encoder_rare(&w->enc);
}

struct buffer *writer_begin_event(struct mt_writer *w, enum mt_kind kind)
{
    return begin_event(w, &w->totals.events[kind]);
}

struct buffer *writer_begin_freed(struct mt_writer *w)
{
    return begin_event(w, &w->totals.freed);
}

/* -- accesses and other events -- */

/* The maps and counters of the writer, for the encoder. */
static struct surroundings surroundings_of(struct mt_writer *w)
{
    return (struct surroundings){.live = &w->map,
                                 .unsampled = w->unsampled.sample.every ? &w->unsampled.map : NULL,
                                 .dead = &w->freed,
                                 .totals = &w->totals,
                                 .heaps = w->counts.heaps,
                                 .beside = w->beside,
                                 .define = writer_segment,
                                 .writer = w};
}

void mt_writer_accesses(struct mt_writer *w, const uint32_t *sites, const uint64_t *addrs, size_t n)
{
    const struct surroundings in = surroundings_of(w);
    while (n && !writer_failed(w)) {
        size_t room = w->chunk_events - w->enc.count;
        size_t batch = n < room ? n : room;
        batch = batch < ENCODE_BATCH ? batch : ENCODE_BATCH;
        writer_sync_thread(w);
        encoder_accesses(&w->enc, &in, sites, addrs, batch);
        writer_end_event(w);
        sites += batch;
        addrs += batch;
        n -= batch;
    }
    w->totals.dropped += n;
}

size_t mt_writer_stream(struct mt_writer *w, const uint8_t *stream, size_t n, uint64_t *instructions,
                        const struct mt_between *between)
{
    const struct surroundings in = surroundings_of(w);
    size_t used = 0, batch = ENCODE_BYTES; /* a shorter batch ends before data that is not a segment */
    while (batch >= ENCODE_BYTES && used < n && !writer_failed(w)) {
        writer_sync_thread(w); /* each chunk begins with thread 1 */
        batch = encoder_segments(&w->enc, &in, stream + used, n - used, instructions, between);
        writer_end_event(w);
        used += batch;
    }
    return writer_failed(w) ? used + mt_writer_skip(w, stream + used, n - used, instructions) : used;
}

void mt_writer_state(struct mt_writer *w, uint32_t heap, enum mt_vm vm, uint32_t trace)
{
    const struct surroundings in = surroundings_of(w);
    if (writer_failed(w)) {
        w->totals.dropped++;
        return;
    }
    writer_sync_thread(w);
    encoder_change(&w->enc, &in, &(struct mt_change){.heap = heap, .trace = trace, .vm = vm});
    writer_end_event(w);
}

/* -- events that say nothing of a block -- */

#define FIT_U(w, v) (v)
#define FIT_STRING(w, id) known((uint32_t)(id), (w)->counts.strings)
#define FIT_STACK(w, id) known((uint32_t)(id), (w)->counts.stacks)

/* put_plain_mark and so on: append the record of an event. */
#define RECORD(NAME, name, code, fields)
#define EVENT_RECORD(NAME, name, code, fields)
#define PLAIN_EVENT(NAME, name, code, fields)                                                                \
    static void put_plain_##name(struct mt_writer *w, struct buffer *b, const struct mt_event *ev)           \
    {                                                                                                        \
        struct rec_##name r;                                                                                 \
        (void)w;                                                                                             \
        fields put_##name(b, &r);                                                                            \
    }
#define F(field, coding) r.field = w->totals.instructions;
#define E(field, coding, to) r.field = FIT_##coding(w, ev->to);
#include "memtrace/format/records.def"
#undef F

static void (*const s_put_plain[MT_KINDS])(struct mt_writer *, struct buffer *, const struct mt_event *) = {
#define RECORD(NAME, name, code, fields)
#define EVENT_RECORD(NAME, name, code, fields)
#define PLAIN_EVENT(NAME, name, code, fields) [MT_##NAME] = put_plain_##name,
#include "memtrace/format/records.def"
};

bool mt_writer_event(struct mt_writer *w, const struct mt_event *ev)
{
    struct buffer *b =
        ev->kind < MT_KINDS && s_put_plain[ev->kind] ? writer_begin_event(w, (enum mt_kind)ev->kind) : NULL;
    if (!b)
        return false;
    s_put_plain[ev->kind](w, b, ev);
    writer_end_event(w);
    return true;
}

void mt_writer_mark(struct mt_writer *w, uint32_t string)
{
    mt_writer_event(w, &(struct mt_event){.kind = MT_MARK, .ref = string});
}

void mt_writer_lost(struct mt_writer *w, uint64_t events, uint32_t reason_string)
{
    w->totals.dropped += events;
    mt_writer_event(w, &(struct mt_event){.kind = MT_LOST, .ref = reason_string, .size = events});
}

void mt_writer_gap(struct mt_writer *w, uint64_t events, uint32_t reason_string)
{
    mt_writer_lost(w, events, reason_string);
    w->has_gaps = true;
    w->gap_handles = w->handles;
}

/* -- the end -- */

static void put_totals(struct mt_writer *w, enum mt_ending ending)
{
    struct buffer b = {0};
    struct mt_totals t;
    mt_writer_totals(w, &t);
    struct rec_end r = {.ending = ending,
                        .instructions = t.instructions,
                        .nanoseconds = t.nanoseconds,
                        .foreign = t.foreign,
                        .dropped = t.dropped,
                        .freed = t.freed};
    memcpy(r.events.of, t.events, sizeof t.events);
    put_end(&b, &r);
    writer_put_chunk(w, CHUNK_END, &b);
    buffer_free(&b);
}

/* At the end: if the limit was reached, restore the saved totals and write how many events are missing. */
static void end_limited(struct mt_writer *w)
{
    uint64_t lost = mt_writer_limited(w), now = w->totals.instructions;
    if (!w->out.full)
        return;
    w->totals = w->kept;
    w->totals.instructions = now;
    w->handles = w->kept_handles;
    w->out.full = false;
    w->out.limit = 0;
    w->cut_off = true;
    buffer_reset(&w->defs); /* definitions of events that are not in the file */
    start_chunk(w);
    mt_writer_lost(w, lost, w->limit_reason);
    mt_writer_flush(w);
}

/* Move the ordinals of live slots to the front of the array and sort them. The array is not used by slot
 * afterwards. */
static size_t gather(struct mt_writer *w)
{
    size_t n = 0;
    for (uint32_t slot = 0; slot < w->map.used; slot++)
        if (w->map.blocks[slot].heap != DEAD_HEAP)
            w->ordinals[n++] = w->ordinals[slot];
    id_list_sort(w->ordinals, n);
    return n;
}

/* Write the list, but not in a file of limited size: its bytes are needed for events, and after the limit is
 * reached the block map contains events that are not in the file. */
static void write_survivors(struct mt_writer *w)
{
    if (!w->out.limit && !w->cut_off && !writer_failed(w))
        writer_list(w, CHUNK_SURVIVORS, w->ordinals, gather(w));
}

int mt_writer_finish(struct mt_writer *w, enum mt_ending ending, struct mt_error *err)
{
    mt_writer_flush(w);
    writer_all_blocks(w);
    mt_writer_flush(w);
    chunk_writer_foreground(&w->out);
    if (!writer_failed(w)) {
        end_limited(w);
        writer_container_list(w);
        write_survivors(w);
        put_totals(w, ending);
        chunk_writer_index(&w->out, w->chunk_first_event, w->handles, w->totals.instructions);
    }
    int result = writer_failed(w) ? MT_ERROR : MT_OK;
    if (err)
        *err = w->out.err;
    chunk_writer_free(&w->out);
    encoder_destroy(&w->enc);
    blockmap_destroy(&w->map);
    freed_destroy(&w->freed);
    unsampled_destroy(&w->unsampled);
    containers_destroy(&w->containers);
    free(w->container_list);
    released_destroy(&w->released);
    writer_defs_free(w);
    writer_lua_free(w);
    block_graph_free(&w->graph);
    free(w->ordinals);
    buffer_free(&w->snapshot.records);
    free(w);
    return result;
}

const struct mt_error *mt_writer_error(const struct mt_writer *w)
{
    return &w->out.err;
}

void mt_writer_clock(struct mt_writer *w, uint64_t nanoseconds)
{
    w->out.has_clock = true;
    w->out.clock = nanoseconds;
}

uint64_t mt_writer_bytes(const struct mt_writer *w)
{
    return w->out.written;
}

void mt_writer_totals(const struct mt_writer *w, struct mt_totals *out)
{
    *out = w->totals;
    out->dropped += w->out.dropped;
    out->nanoseconds = chunk_writer_nanoseconds(&w->out);
}

/* -- a file of limited size --
 *
 * When the limit is reached, the writer continues to process events, because their number is reported at the end, and
 * whether an access is to the heap depends on all events before it. It stops writing chunks of events. The file then
 * ends as if nothing had happened after the last chunk that fit, except for one MT_LOST event and the end time. */

/* Below this limit, chunks have fewer events, so that more of the allowed bytes can be used. */
#define SMALL_LIMIT (64u << 20)
#define SMALL_CHUNK (1u << 16)

/* The file of a forked child already contains the inherited blocks. They are written before the chunks get
 * smaller. If the definition of the reason does not fit into the file, no reason is given. */
void mt_writer_limit(struct mt_writer *w, uint64_t bytes, const char *reason)
{
    uint32_t string = mt_writer_string(w, reason, strlen(reason));
    chunk_writer_foreground(&w->out);
    w->out.limit = bytes;
    writer_defs_flush(w);
    w->limit_reason = w->out.full ? 0 : string;
    mt_writer_flush(w);
    if (bytes < SMALL_LIMIT && w->chunk_events > SMALL_CHUNK) {
        w->chunk_events = SMALL_CHUNK;
        start_chunk(w);
    }
}

static uint64_t count(const struct mt_totals *t)
{
    uint64_t n = t->freed;
    for (unsigned kind = 0; kind < MT_KINDS; kind++)
        n += t->events[kind];
    return n;
}

uint64_t mt_writer_limited(const struct mt_writer *w)
{
    return w->out.full ? count(&w->totals) - count(&w->kept) : 0;
}

/* -- the lists at the end: SURVIVORS chunks, as memtrace/base/id_list.h says --
 *
 * Each block is identified by the ordinal of its last New or Resize, counting both kinds together. Readers can then
 * treat a Resize as a Free followed by a New, in which case a resized block is a freed one. Ordinals are kept by slot
 * in an array of their own. Storing them in the block map would make its entries larger, which are read for each
 * access. */

void writer_survivors_note(struct mt_writer *w, uint32_t slot)
{
    if (!array_reserve(&w->ordinals, &w->ordinals_room, slot + 1u, sizeof *w->ordinals)) {
        mt_fail_memory(&w->out.err);
        return;
    }
    w->ordinals[slot] = w->totals.events[MT_NEW] + w->totals.events[MT_RESIZE] - 1;
}

void writer_list(struct mt_writer *w, enum chunk_type type, const uint64_t *list, size_t n)
{
    struct buffer b = {0};
    uint64_t next = 0;
    do {
        if (buffer_reserve(&b, ID_LIST_SIZE))
            b.p += id_list_write(b.p, &list, &n, &next);
        else
            mt_fail_memory(&w->out.err);
        writer_put_chunk(w, type, &b);
    } while (n && !writer_failed(w));
    buffer_free(&b);
}

/* -- segments whose accesses are not recorded: those of allocators, and those that the user excluded -- */

/* Return p, hidden from the optimizer, so that it keeps the branches of next_segment. */
static inline const uint8_t *opaque(const uint8_t *p)
{
    __asm__("" : "+r"(p));
    return p;
}

/* The address of the next segment. Computing it from the length would have to wait until the length is loaded.
 * Most segments are short, so the processor predicts a branch on the length and continues at once. */
static inline const uint8_t *next_segment(const uint8_t *at, uint32_t words)
{
    switch (words) {
    case 1:
        return opaque(at + mt_stream_bytes(1));
    case 2:
        return opaque(at + mt_stream_bytes(2));
    case 3:
        return opaque(at + mt_stream_bytes(3));
    case 4:
        return opaque(at + mt_stream_bytes(4));
    default:
        return at + mt_stream_bytes(words);
    }
}

size_t mt_writer_skip(struct mt_writer *w, const uint8_t *stream, size_t n, uint64_t *instructions)
{
    const struct codebook *book = &w->enc.book;
    const struct fusion *callers = &w->enc.fusion;
    const uint8_t *at = stream, *end = stream + n;
    uint64_t sum = 0, accesses = 0;
    while (end - at >= MT_STREAM_ID && mt_stream_id(at) < callers->count) {
        const struct coded_segment *s = &book->segments[callers->of[mt_stream_id(at)].segment];
        __builtin_prefetch(at + PREFETCH_BYTES);
        if (mt_stream_bytes(s->words) > (size_t)(end - at))
            break;
        accesses += s->count;
        sum += s->instructions;
        at = next_segment(at, s->words);
    }
    w->totals.dropped += writer_failed(w) ? accesses : 0;
    *instructions += sum;
    return (size_t)(at - stream);
}

/* -- traces that begin with the blocks of another: of a forked child, or continued in another file --
 *
 * The definitions are written again, in an order in which each gets the same id. Freed blocks are not copied. */

enum beginning { FORKED, CONTINUED };

/* The sample leaves out the same blocks. */
static void take_over_unsampled(struct mt_writer *to, const struct mt_writer *from)
{
    const struct blockmap *map = &from->unsampled.map;
    for (uint32_t slot = 0; to->unsampled.sample.every && slot < map->used; slot++) {
        if (map->blocks[slot].heap == DEAD_HEAP)
            continue;
        if (!unsampled_add(&to->unsampled, &map->blocks[slot]))
            mt_fail_memory(&to->out.err);
        to->unsampled.all.news++;
        to->unsampled.all.allocated += map->blocks[slot].size;
    }
    to->unsampled.drawn = from->unsampled.drawn;
}

/* Write the live blocks of `from`. If the new trace continues it, blocks that were inherited from a parent process
 * stay inherited. */
static void take_over_blocks(struct mt_writer *to, const struct mt_writer *from, enum beginning how)
{
    const struct blockmap *map = &from->map;
    for (uint32_t slot = 0; slot < map->used; slot++)
        if (map->blocks[slot].heap != DEAD_HEAP &&
            (how == FORKED || map->blocks[slot].handle < from->inherited))
            writer_take_over(to, &map->blocks[slot], true);
    for (uint32_t slot = 0; slot < map->used; slot++)
        if (map->blocks[slot].heap != DEAD_HEAP && how == CONTINUED &&
            map->blocks[slot].handle >= from->inherited)
            writer_take_over(to, &map->blocks[slot], false);
}

static struct mt_writer *begin(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                               enum beginning how, struct mt_error *err)
{
    if (writer_failed(w)) {
        if (err)
            *err = w->out.err;
        return NULL;
    }
    struct mt_writer *other = mt_writer_new(fd, opts, err);
    if (!other)
        return NULL;
    if (how == CONTINUED)
        other->out.start = w->out.start;
    mt_writer_time(other, w->totals.instructions);
    mt_writer_thread(other, w->thread);
    writer_defs_copy(other, w);
    take_over_blocks(other, w, how);
    take_over_unsampled(other, w);
    other->has_gaps = w->has_gaps;
    other->gap_handles = w->gap_handles ? other->handles : 0;
    writer_copy_containers(other, w);
    writer_lua_copy(other, w);
    if (!writer_failed(other))
        return other;
    mt_writer_finish(other, MT_ENDING_UNKNOWN, err);
    return NULL;
}

struct mt_writer *mt_writer_fork(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                                 struct mt_error *err)
{
    return begin(w, fd, opts, FORKED, err);
}

struct mt_writer *mt_writer_continue(const struct mt_writer *w, int fd, const struct mt_writer_options *opts,
                                     struct mt_error *err)
{
    return begin(w, fd, opts, CONTINUED, err);
}

bool mt_writer_is_whole(const struct mt_writer *w)
{
    return !w->snapshot.open && !w->graph.reached;
}
