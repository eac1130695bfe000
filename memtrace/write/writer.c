/* writer.c - the part of `struct mt_writer` that writes events: heap events, accesses, chunks, the end.
 *
 * Each function takes a few nanoseconds as long as the chunk is not full. A full chunk is compressed and written at
 * once. After an error, events are only counted as dropped.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
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

void writer_start_chunk(struct mt_writer *w)
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
        writer_start_chunk(w);
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
    if (encoder_bytes(&w->enc) == UINT64_MAX)
        mt_fail_memory(&w->out.err);
    chunk_writer_put(&w->out, &h, w->enc.streams);
    if (!w->out.full)
        w->chunk_first_event += w->enc.count;
    writer_note_kept(w);
    writer_checkpoint(w);
    writer_start_chunk(w);
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

/* -- heap events -- */

uint64_t mt_writer_peak_reserve(const struct mt_writer *w)
{
    return w->peak.reserve;
}

/* Bytes were allocated: are more live than ever? news: the number of News, with the one that begins. */
static void note_peak(struct mt_writer *w, uint64_t news)
{
    const uint64_t live = w->unsampled.all.allocated - w->unsampled.all.freed;
    if (live <= w->peak.bytes)
        return;
    w->peak.bytes = live;
    w->peak.news = news;
    w->peak.reserve = 0;
}

/* Add a freed block to the map of freed memory. */
static void remember_freed(struct mt_writer *w, const struct block *dead)
{
    if (!freed_add(&w->freed, dead))
        mt_fail_memory(&w->out.err);
}

static void count_free(struct mt_writer *w, uint64_t bytes)
{
    w->unsampled.all.frees++;
    w->unsampled.all.freed += bytes;
}

/* Free a recorded block. */
static void free_slot(struct mt_writer *w, uint32_t slot, uint32_t stack, enum writer_freeing why)
{
    struct buffer *b = writer_begin_event(w, MT_FREE);
    if (!b)
        return;
    count_free(w, w->map.blocks[slot].size);
    put_free(b, &(struct rec_free){w->totals.instructions, slot, why != WRITER_FREED, stack});
    struct block dead = w->map.blocks[slot];
    blockmap_remove(&w->map, slot);
    if (why == WRITER_MATERIAL) {
        writer_begin_container(w, &dead);
        w->peak.reserve += dead.handle < w->peak.news ? dead.size : 0;
    } else {
        remember_freed(w, &dead);
    }
    w->totals.dropped += why == WRITER_COVERED && writer_is_certain(w, &dead);
    writer_end_event(w);
}

/* End a block that the sample leaves out. As a container it has no handle, because the trace has no event of it. */
static void free_unsampled(struct mt_writer *w, uint32_t slot, enum writer_freeing why)
{
    struct block dead = w->unsampled.map.blocks[slot];
    dead.handle = MT_NO_HANDLE;
    count_free(w, dead.size);
    if (!unsampled_end(&w->unsampled, slot, why != WRITER_MATERIAL))
        mt_fail_memory(&w->out.err);
    if (why == WRITER_MATERIAL)
        writer_keep_container(w, &dead);
}

void writer_free_held(struct mt_writer *w, struct held h, uint32_t stack, enum writer_freeing why)
{
    if (h.unsampled)
        free_unsampled(w, h.slot, why);
    else
        free_slot(w, h.slot, stack, why);
}

struct held writer_held_at(const struct mt_writer *w, uint64_t addr)
{
    const struct held recorded = {writer_failed(w) ? NO_SLOT : blockmap_at(&w->map, addr), false};
    if (recorded.slot != NO_SLOT || writer_failed(w))
        return recorded;
    return (struct held){unsampled_at(&w->unsampled, addr), true};
}

struct held writer_held_overlap(const struct mt_writer *w, uint64_t addr, uint64_t size, struct held except)
{
    const struct held recorded = {
        blockmap_overlap(&w->map, addr, size, except.unsampled ? NO_SLOT : except.slot), false};
    if (recorded.slot != NO_SLOT || !w->unsampled.sample.every)
        return recorded;
    return (struct held){
        blockmap_overlap(&w->unsampled.map, addr, size, except.unsampled ? except.slot : NO_SLOT), true};
}

/* Free all blocks that a new or moved block of `heap` overlaps. */
static void free_overlapped(struct mt_writer *w, uint64_t addr, uint64_t size, struct held except,
                            uint32_t heap, uint32_t stack)
{
    struct held h;
    while (!writer_failed(w) && (h = writer_held_overlap(w, addr, size, except)).slot != NO_SLOT) {
        bool material = writer_is_material(w, writer_held_block(w, h), addr, size, heap);
        writer_free_held(w, h, stack, material ? WRITER_MATERIAL : WRITER_COVERED);
    }
}

/* The size of a block, reduced if it would end beyond the address space. */
static uint64_t fitting_size(uint64_t addr, uint64_t size)
{
    return span_fits(addr, size) ? size : 0 - addr;
}

static uint32_t known_stack(const struct mt_writer *w, uint32_t stack)
{
    return stack < w->counts.stacks ? stack : 0;
}

static uint32_t known_heap(const struct mt_writer *w, uint32_t heap)
{
    return heap < w->counts.heaps ? heap : 0;
}

/* Give a new block a slot and a handle; false when out of memory. */
static bool enter(struct mt_writer *w, struct rec_new *r)
{
    uint32_t slot = blockmap_add(&w->map, r->addr, r->size, (uint32_t)r->heap, w->handles++);
    if (slot == NO_SLOT || slot >= MAX_LIVE_BLOCKS)
        return mt_fail_memory(&w->out.err) == MT_OK;
    w->map.blocks[slot].note = (uint32_t)(r->stack << HOW_BITS | r->how);
    r->slot = slot;
    writer_lua_new(w, slot);
    writer_survivors_note(w, slot);
    encoder_touch(&w->enc, r->addr, slot);
    return true;
}

/* The same of memory that blocks had that the sample leaves out. */
static void cover_unsampled(struct mt_writer *w, uint64_t addr, uint64_t size)
{
    if (!w->unsampled.sample.every)
        return;
    freed_cover(&w->unsampled.freed, addr, size);
    if (w->unsampled.freed.failed)
        mt_fail_memory(&w->out.err);
}

void writer_cover(struct mt_writer *w, uint64_t addr, uint64_t size)
{
    freed_cover(&w->freed, addr, size);
    cover_unsampled(w, addr, size);
    if (w->freed.failed)
        mt_fail_memory(&w->out.err);
}

/* Make room for a new block: remove freed memory and free live blocks at its place. In most cases it reuses
 * exactly the memory of one freed block. */
static void clear_ground(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, uint32_t stack)
{
    if (writer_failed(w))
        return;
    if (!freed_take(&w->freed, addr, size)) {
        free_overlapped(w, addr, size, NO_BLOCK, heap, stack);
        freed_cover(&w->freed, addr, size);
        cover_unsampled(w, addr, size);
    }
    if (w->freed.failed)
        mt_fail_memory(&w->out.err);
}

static void count_new(struct mt_writer *w, uint64_t bytes)
{
    w->unsampled.all.news++;
    w->unsampled.all.allocated += bytes;
    note_peak(w, w->handles + 1);
}

/* The sample does not have this new block. */
static void leave_out(struct mt_writer *w, const struct rec_new *r)
{
    const struct block b = {.base = r->addr,
                            .size = r->size,
                            .heap = (uint32_t)r->heap,
                            .note = (uint32_t)(r->stack << HOW_BITS | r->how)};
    if (!writer_failed(w) && !unsampled_add(&w->unsampled, &b))
        mt_fail_memory(&w->out.err);
}

void mt_writer_block_new(struct mt_writer *w, uint64_t addr, uint64_t size, uint32_t heap, enum mt_how how,
                         uint32_t stack)
{
    heap = known_heap(w, heap);
    stack = known_stack(w, stack);
    size = fitting_size(addr, size);
    if (containers_has(&w->containers, heap))
        writer_forget_containers(w, addr, size, heap);
    released_take(&w->released, addr, heap);
    clear_ground(w, addr, size, heap, stack);
    struct rec_new r = {
        w->totals.instructions, 0, addr, size, heap, how < MT_HOWS ? how : MT_HOW_CUSTOM, stack};
    count_new(w, size);
    if (unsampled_leaves_out(&w->unsampled)) {
        leave_out(w, &r);
        return;
    }
    struct buffer *b = writer_begin_event(w, MT_NEW);
    if (!b)
        return;
    if (!enter(w, &r))
        return;
    put_new(b, &r);
    writer_end_event(w);
}

void writer_take_over(struct mt_writer *w, const struct block *block, bool inherited)
{
    struct rec_new r = {
        w->totals.instructions, 0, block->base, block->size, block->heap, note_how(block->note),
        note_stack(block->note)};
    struct buffer *b = writer_begin_event(w, MT_NEW);
    count_new(w, r.size);
    if (!b || !enter(w, &r))
        return;
    if (inherited)
        put_inherit(b, &(struct rec_inherit){r.time, r.slot, r.addr, r.size, r.heap, r.how, r.stack});
    else
        put_held(b, &(struct rec_held){r.time, r.slot, r.addr, r.size, r.heap, r.how, r.stack});
    w->inherited += inherited;
    writer_end_event(w);
}

uint32_t writer_slot_at(const struct mt_writer *w, uint64_t addr, uint32_t heap)
{
    uint32_t slot = writer_failed(w) ? NO_SLOT : blockmap_at(&w->map, addr);
    return slot != NO_SLOT && w->map.blocks[slot].heap == heap ? slot : NO_SLOT;
}

/* May a function of `heap` free a block of `other`? Lua states may share an allocator, and then it is concluded from the
 * program's registers and stack which of them calls it. */
static bool may_free(const struct mt_writer *w, uint32_t heap, uint32_t other)
{
    return heap == other ||
           (writer_heap_kind(w, heap) == MT_HEAP_LUA && writer_heap_kind(w, other) == MT_HEAP_LUA);
}

/* The block that begins at addr, if a function of `heap` may free it. */
static struct held held_of_heap(struct mt_writer *w, uint64_t addr, uint32_t heap)
{
    const struct held h = writer_held_at(w, addr);
    return h.slot != NO_SLOT && may_free(w, heap, writer_held_block(w, h)->heap) ? h : NO_BLOCK;
}

/* Free a block by a function of this family; MT_HOWS = family unknown. */
static void free_how(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_how how, uint32_t stack)
{
    heap = known_heap(w, heap);
    stack = known_stack(w, stack);
    const struct held h = held_of_heap(w, addr, heap);
    if (h.slot == NO_SLOT) {
        if (!writer_free_container(w, addr, heap, stack) && !released_take(&w->released, addr, heap) &&
            !writer_lacks_new(w, addr))
            writer_bad_free(w, addr, heap, stack);
        return;
    }
    if (!h.unsampled)
        writer_check_how(w, h.slot, how, stack);
    writer_free_held(w, h, stack, WRITER_FREED);
}

void mt_writer_block_free(struct mt_writer *w, uint64_t addr, uint32_t heap, uint32_t stack)
{
    free_how(w, addr, heap, MT_HOWS, stack);
}

void mt_writer_block_free_as(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_how how,
                             uint32_t stack)
{
    free_how(w, addr, heap, how, stack);
}

/* Move or resize a live block. */
static void move(struct mt_writer *w, uint32_t slot, uint64_t addr, uint64_t size, uint32_t stack)
{
    struct block *b = &w->map.blocks[slot], old = *b;
    writer_cover(w, addr, size);
    b->note = stack << HOW_BITS | note_how(b->note);
    if (!blockmap_move(&w->map, slot, addr, size))
        mt_fail_memory(&w->out.err);
    else if (old.base > span_last(addr, size) || addr > span_last(old.base, old.size))
        remember_freed(w, &old);
    writer_survivors_note(w, slot);
    encoder_touch(&w->enc, addr, slot);
}

static void count_resize(struct mt_writer *w, uint64_t old_size, uint64_t size)
{
    struct all_blocks *all = &w->unsampled.all;
    all->resizes++;
    all->allocated += size;
    all->freed += old_size;
    note_peak(w, w->handles);
}

/* Move or resize a block that the sample leaves out. */
static void move_unsampled(struct mt_writer *w, uint32_t slot, uint64_t addr, uint64_t size, uint32_t stack)
{
    const uint32_t how = note_how(w->unsampled.map.blocks[slot].note);
    writer_cover(w, addr, size);
    if (!unsampled_move(&w->unsampled, slot, addr, size, stack << HOW_BITS | how))
        mt_fail_memory(&w->out.err);
}

void mt_writer_block_resize(struct mt_writer *w, uint64_t old_addr, uint64_t addr, uint64_t size,
                            uint32_t heap, enum mt_how how, uint32_t stack)
{
    heap = known_heap(w, heap);
    stack = known_stack(w, stack);
    const struct held h = held_of_heap(w, old_addr, heap);
    if (h.slot == NO_SLOT && released_take(&w->released, old_addr, heap)) {
        writer_note_released(w, addr, heap);
        return;
    }
    if (h.slot == NO_SLOT) {
        if (!writer_free_container(w, old_addr, heap, stack)) {
            if (!writer_lacks_new(w, old_addr))
                writer_bad_free(w, old_addr, heap, stack);
            else if (!w->lacks_news)
                return;
        }
        mt_writer_block_new(w, addr, size, heap, how, stack);
        return;
    }
    size = fitting_size(addr, size);
    if (!h.unsampled)
        writer_check_how(w, h.slot, how, stack);
    free_overlapped(w, addr, size, h, heap, stack);
    count_resize(w, writer_held_block(w, h)->size, size);
    if (h.unsampled) {
        move_unsampled(w, h.slot, addr, size, stack);
        return;
    }
    struct buffer *b = writer_begin_event(w, MT_RESIZE);
    if (!b)
        return;
    put_resize(b,
               &(struct rec_resize){w->totals.instructions, h.slot, (int64_t)(addr - old_addr), size, stack});
    move(w, h.slot, addr, size, stack);
    writer_end_event(w);
}

void mt_writer_heap_free(struct mt_writer *w, uint32_t heap, uint32_t stack)
{
    heap = known_heap(w, heap);
    struct held h;
    for (uint64_t i = 0; (h = writer_held_nth(w, i)).slot != NO_SLOT; i++)
        if (writer_held_block(w, h)->heap == heap)
            writer_free_held(w, h, known_stack(w, stack), WRITER_FREED);
    writer_free_containers(w, heap, known_stack(w, stack));
}

/* -- accesses and other events -- */

void mt_writer_accesses(struct mt_writer *w, const uint32_t *sites, const uint64_t *addrs, size_t n)
{
    const struct surroundings in = writer_surroundings(w);
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
    const struct surroundings in = writer_surroundings(w);
    size_t used = 0, batch = ENCODE_BYTES; /* a shorter batch ends before data that is not a segment */
    while (batch >= ENCODE_BYTES && used < n && !writer_failed(w)) {
        writer_sync_thread(w); /* each chunk begins with thread 1 */
        batch = encoder_segments(&w->enc, &in, stream + used, n - used, instructions, between);
        writer_end_event(w);
        used += batch;
    }
    return writer_failed(w) ? used + mt_writer_skip(w, stream + used, n - used, instructions) : used;
}

void mt_writer_mark(struct mt_writer *w, uint32_t string)
{
    struct buffer *b = writer_begin_event(w, MT_MARK);
    if (!b)
        return;
    put_mark(b, &(struct rec_mark){w->totals.instructions, string < w->counts.strings ? string : 0});
    writer_end_event(w);
}

void mt_writer_lost(struct mt_writer *w, uint64_t events, uint32_t reason_string)
{
    struct buffer *b = writer_begin_event(w, MT_LOST);
    w->totals.dropped += events;
    if (!b)
        return;
    put_lost(b, &(struct rec_lost){w->totals.instructions, events,
                                   reason_string < w->counts.strings ? reason_string : 0});
    writer_end_event(w);
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
    struct chunk_header h = {.type = CHUNK_END,
                             .first_event = w->chunk_first_event,
                             .first_handle = w->handles,
                             .instructions = t.instructions};
    if (b.failed)
        mt_fail_memory(&w->out.err);
    chunk_writer_put(&w->out, &h, &b);
    buffer_free(&b);
}

int mt_writer_finish(struct mt_writer *w, enum mt_ending ending, struct mt_error *err)
{
    mt_writer_flush(w);
    writer_all_blocks(w);
    mt_writer_flush(w);
    chunk_writer_foreground(&w->out);
    if (!writer_failed(w)) {
        writer_end_limited(w);
        writer_container_list(w);
        writer_survivors(w);
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
    reach_free(&w->reach);
    writer_survivors_free(w);
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
