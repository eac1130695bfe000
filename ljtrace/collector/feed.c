/* feed.c - decode the records of a slab and handle those of accesses and heaps. (see feed.h)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/feed_impl.h"
#include "memtrace/sample.h"
#include "memtrace/stream.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct feed *feed_new(struct mt_writer *w)
{
    struct feed *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->writer = w;
    f->payload = malloc(RING_MARGIN_BYTES);
    f->debuginfo = debuginfo_new();
    if (!f->payload || !f->debuginfo)
        abort();
    f->between = (struct mt_between){feed_change, f};
    f->ending = MT_ENDING_KILLED;
    f->heap_version = 1;
    stacks_init(&f->stacks, w);
    map_set(&f->heap_of, RAW_HEAP_C, 0);
    return f;
}

void feed_free(struct feed *f)
{
    stacks_free(&f->stacks);
    map_clear(&f->site_of);
    map_clear(&f->heap_of);
    snapshot_clear(&f->snapshot);
    feed_modules_free(f);
    regions_free(&f->regions);
    map_clear(&f->existing.freed);
    feed_pools_free(f);
    debuginfo_free(f->debuginfo);
    free(f->payload);
    free(f->lines);
    free(f->machines);
    free(f);
}

void feed_process(struct feed *f, int process)
{
    f->process = process;
}

enum mt_ending feed_ending(const struct feed *f)
{
    return f->ending;
}

void feed_rebind(struct feed *f, struct mt_writer *w)
{
    f->writer = f->stacks.writer = w;
    feed_forget_states(f);
}

bool feed_ended(const struct feed *f)
{
    return f->ended;
}

enum feed_request feed_take_request(struct feed *f)
{
    enum feed_request request = f->request;
    f->request = FEED_NONE;
    return request;
}

void feed_time(struct feed *f, uint64_t uncounted)
{
    mt_writer_time(f->writer, f->counted + uncounted);
}

/* The site of an access. The same instruction in several superblocks is one site. Different instructions at
 * the same address, one after the other, have different frames and are different sites. */
static uint32_t site_id(struct feed *f, uint64_t ip, uint32_t size, uint8_t kind)
{
    const uint64_t key[3] = {ip, raw_pair(size, kind), stacks_frame(&f->stacks, ip)};
    uint64_t hash = XXH3_64bits(key, sizeof key);
    uint32_t id;
    if (map_get(&f->site_of, hash, &id))
        return id;
    struct mt_site site = {.ip = ip, .frame = (uint32_t)key[2], .size = size, .kind = kind};
    id = mt_writer_site(f->writer, &site);
    map_set(&f->site_of, hash, id);
    return id;
}

static const uint8_t s_kinds[] = {[RAW_LOAD] = MT_LOAD, [RAW_STORE] = MT_STORE, [RAW_MODIFY] = MT_MODIFY};

const char *handle_define(struct feed *f, const struct ring_define *r)
{
    uint32_t before = r->appended ? f->accesses : 0;
    if (before + r->accesses_count > MT_SEGMENT_MOST)
        return "segment definition of a length that can not be";
    for (uint32_t i = 0; i < r->accesses_count; i++) {
        const struct raw_segment_access *a = &r->accesses[i];
        if (a->kind > RAW_MODIFY)
            return "segment definition with an unknown kind of access";
        uint32_t site = site_id(f, a->ip, a->size, s_kinds[a->kind]);
        f->access[before + i] = (struct mt_access){site, a->word, a->distance};
    }
    f->accesses = before + r->accesses_count;
    struct mt_segment s = {f->access, f->accesses, r->words, r->instructions};
    bool known = mt_writer_segment(f->writer, &s) != UINT32_MAX;
    return known || mt_writer_error(f->writer)->code != MT_E_NONE ? NULL
                                                                  : "segment definition that can not be";
}

static void set_heap(struct feed *f, uint64_t ud, uint32_t id)
{
    map_set(&f->heap_of, ud, id);
    f->heap_version++;
}

uint32_t feed_heap(struct feed *f, uint64_t ud)
{
    uint32_t id;
    if (map_get(&f->heap_of, ud, &id) && (id != 0 || ud == RAW_HEAP_C))
        return id;
    struct mt_heap heap = {.id = ud, .kind = MT_HEAP_LUA};
    id = mt_writer_heap(f->writer, &heap);
    set_heap(f, ud, id);
    return id;
}

uint32_t feed_slot(struct feed *f, uint32_t slot)
{
    struct feed_slot *s = &f->slot[slot % RING_HEAP_SLOTS];
    if (s->version != f->heap_version) {
        s->id = feed_heap(f, s->heap);
        s->version = f->heap_version;
    }
    return s->id;
}

const char *handle_slot(struct feed *f, const struct ring_slot *r)
{
    if (r->slot >= RING_HEAP_SLOTS)
        return "heap in a slot that can not be";
    f->slot[r->slot] = (struct feed_slot){r->heap, 0, 0};
    return NULL;
}

/* Write the heap's name as a fact, with the heap's id in its key. */
static void name_heap(struct feed *f, uint32_t id, struct raw_text text)
{
    char key[40], *name = strndup(text.at, text.bytes);
    if (!name)
        abort();
    snprintf(key, sizeof key, "heap_name.%" PRIu32, id);
    mt_writer_info(f->writer, key, name);
    free(name);
}

const char *handle_heap(struct feed *f, const struct ring_heap *r)
{
    static const uint8_t kinds[] = {[RAW_KIND_CUSTOM] = MT_HEAP_CUSTOM, [RAW_KIND_MMAP] = MT_HEAP_MMAP};
    if (r->kind >= RAW_HEAP_KINDS)
        return "heap of an unknown kind";
    struct mt_heap heap = {.id = r->heap & ~RAW_HEAP_POOL, .kind = kinds[r->kind]};
    uint32_t id = mt_writer_heap(f->writer, &heap);
    set_heap(f, r->heap, id);
    if (r->name.bytes)
        name_heap(f, id, r->name);
    return NULL;
}

const char *handle_rename(struct feed *f, const struct ring_rename *r)
{
    uint32_t id = feed_heap(f, r->from);
    set_heap(f, r->from, 0);
    set_heap(f, r->to, id);
    return NULL;
}

const char *handle_node(struct feed *f, const struct ring_node *r)
{
    if (r->number > RING_NODES || r->parent >= r->number || !r->ip)
        return "stack with a number that can not be";
    stacks_node(&f->stacks, r->number, (uint32_t)r->parent, r->ip);
    return NULL;
}

static uint32_t stack_id(struct feed *f, const struct raw_stack *s)
{
    return s->number ? stacks_numbered(&f->stacks, s->number) : stacks_intern(&f->stacks, s->ips, s->depth);
}

const char *handle_new(struct feed *f, const struct ring_new *r)
{
    f->began = true;
    feed_time(f, r->instructions);
    mt_writer_block_new(f->writer, r->addr, r->size, feed_slot(f, r->slot), (enum mt_how)r->how,
                        stack_id(f, &r->stack));
    return NULL;
}

const char *handle_free(struct feed *f, const struct ring_free *r)
{
    feed_time(f, r->instructions);
    if (f->existing.awaited)
        feed_existing_free(f, r->addr);
    mt_writer_lacks_news(f->writer, r->how & RAW_HOW_UNKNOWN);
    mt_writer_block_free_as(f->writer, r->addr, feed_slot(f, r->slot),
                            (enum mt_how)(r->how & ~(uint32_t)RAW_HOW_UNKNOWN), stack_id(f, &r->stack));
    return NULL;
}

const char *handle_resize(struct feed *f, const struct ring_resize *r)
{
    feed_time(f, r->instructions);
    if (f->existing.awaited)
        feed_existing_free(f, r->old);
    mt_writer_lacks_news(f->writer, r->how & RAW_HOW_UNKNOWN);
    mt_writer_block_resize(f->writer, r->old, r->addr, r->size, feed_slot(f, r->slot),
                           (enum mt_how)(r->how & ~(uint32_t)RAW_HOW_UNKNOWN), stack_id(f, &r->stack));
    return NULL;
}

const char *handle_trim(struct feed *f, const struct ring_trim *r)
{
    feed_time(f, r->instructions);
    mt_writer_trim(f->writer, r->addr, r->size, feed_heap(f, r->heap), stack_id(f, &r->stack));
    return NULL;
}

const char *handle_unmap(struct feed *f, const struct ring_unmap *r)
{
    feed_time(f, r->instructions);
    mt_writer_unmap(f->writer, r->addr, r->size, feed_heap(f, r->heap), stack_id(f, &r->stack));
    return NULL;
}

const char *handle_remap(struct feed *f, const struct ring_remap *r)
{
    feed_time(f, r->instructions);
    mt_writer_remap(f->writer, r->old, r->old_size, r->addr, r->size, feed_heap(f, r->heap),
                    stack_id(f, &r->stack));
    return NULL;
}

const char *handle_mapped(struct feed *f, const struct ring_mapped *r)
{
    mt_writer_mapped(f->writer, r->addr, r->size);
    return NULL;
}

const char *handle_touch(struct feed *f, const struct ring_touch *r)
{
    if (r->access > RAW_MODIFY)
        return "system call with an unknown kind of access";
    if (!f->off)
        mt_writer_touch(f->writer, (enum mt_kind)s_kinds[r->access], r->addr, r->size);
    return NULL;
}

/* Another state may use the same number afterwards: that is another heap. */
const char *handle_close(struct feed *f, const struct ring_close *r)
{
    uint32_t id;
    feed_time(f, r->instructions);
    if (r->heap != RAW_HEAP_C && map_get(&f->heap_of, r->heap, &id) && id != 0) {
        mt_writer_heap_free(f->writer, id, 0);
        set_heap(f, r->heap, 0);
    }
    return NULL;
}

static void update_off(struct feed *f)
{
    f->off = f->switched_off || f->unfocused[f->thread];
}

/* Accesses were switched on or off: say so in a fact, the last value of which counts. A run that begins with them switched
 * off has none until they are switched on. */
static void note_accesses(struct feed *f)
{
    if (f->off ? f->recorded != RECORDED_WHOLE : f->recorded != RECORDED_NONE)
        return;
    f->recorded = f->off && !f->began ? RECORDED_NONE : RECORDED_PART;
    mt_writer_info(f->writer, MT_INFO_ACCESSES, f->recorded == RECORDED_NONE ? "none" : "part");
}

const char *handle_focus(struct feed *f, const struct ring_focus *r)
{
    f->unfocused[f->thread] = !r->on;
    update_off(f);
    note_accesses(f);
    return NULL;
}

const char *handle_report(struct feed *f, const struct ring_report *r)
{
    f->request = r->snapshot ? FEED_SNAPSHOT : FEED_STATUS;
    return NULL;
}

const char *handle_thread(struct feed *f, const struct ring_thread *r)
{
    f->thread = r->thread & 0xffff;
    mt_writer_thread(f->writer, (uint16_t)f->thread);
    update_off(f);
    return NULL;
}

const char *handle_enter(struct feed *f, const struct ring_enter *r)
{
    (void)r;
    f->inside[f->thread]++;
    return NULL;
}

const char *handle_leave(struct feed *f, const struct ring_leave *r)
{
    (void)r;
    f->inside[f->thread] -= f->inside[f->thread] > 0;
    return NULL;
}

const char *handle_switch(struct feed *f, const struct ring_switch *r)
{
    f->switched_off = !r->on;
    update_off(f);
    note_accesses(f);
    return NULL;
}

const char *handle_mark(struct feed *f, const struct ring_mark *r)
{
    feed_time(f, r->instructions);
    mt_writer_mark(f->writer, mt_writer_string(f->writer, r->name.at, r->name.bytes));
    return NULL;
}

const char *handle_info(struct feed *f, const struct ring_info *r)
{
    char *key = strndup(r->key.at, r->key.bytes), *value = strndup(r->value.at, r->value.bytes);
    if (!key || !value)
        abort();
    mt_writer_info(f->writer, key, value);
    f->sampled |= strcmp(key, MT_INFO_SAMPLE_MEAN) == 0;
    free(key);
    free(value);
    return NULL;
}

const char *handle_pointers(struct feed *f, const struct ring_pointers *r)
{
    for (uint32_t i = 0; i < r->pointers_count; i++)
        mt_writer_pointer(f->writer, raw_pointer_place(r->base, r->pointers[i]),
                          raw_pointer_value(r->pointers[i]), r->allocator != 0);
    return NULL;
}

const char *handle_reach(struct feed *f, const struct ring_reach *r)
{
    (void)r;
    mt_writer_reach(f->writer);
    return NULL;
}

const char *handle_exec(struct feed *f, const struct ring_exec *r)
{
    feed_time(f, r->instructions);
    f->ending = r->begins ? MT_ENDING_EXEC : MT_ENDING_KILLED;
    return NULL;
}

static const char *request_socket(struct feed *f, enum feed_request request, struct raw_text name)
{
    if (name.bytes >= sizeof f->fork_socket)
        return "a socket with a name that is too long";
    memcpy(f->fork_socket, name.at, name.bytes);
    f->fork_socket[name.bytes] = 0;
    f->request = request;
    return NULL;
}

const char *handle_forked(struct feed *f, const struct ring_forked *r)
{
    feed_time(f, r->instructions);
    return request_socket(f, FEED_FORK, r->name);
}

const char *handle_copied(struct feed *f, const struct ring_copied *r)
{
    feed_time(f, r->instructions);
    return request_socket(f, FEED_COPY, r->name);
}

const char *feed_fork_socket(const struct feed *f)
{
    return f->fork_socket;
}

const char *handle_end(struct feed *f, const struct ring_end *r)
{
    feed_time(f, r->instructions);
    f->ended = true;
    f->ending = r->ending < MT_ENDINGS ? (enum mt_ending)r->ending : MT_ENDING_UNKNOWN;
    return NULL;
}

/* -- events that the native library has dropped --
 *
 * Each gap becomes a LOST event for each kind of missing events. The totals are facts, too, so that readers need not
 * search for the events. */

static const struct {
    const char *reason, *fact;
} s_losses[RING_LOSSES] = {[RING_LOST_NEW] = {"ring full: allocations", "lost_allocations"},
                           [RING_LOST_FREE] = {"ring full: frees", "lost_frees"},
                           [RING_LOST_RESIZE] = {"ring full: resizes", "lost_resizes"},
                           [RING_LOST_OTHER] = {"ring full: others", "lost_others"},
                           [RING_LOST_IN_HANDLER] = {"in signal handlers", "lost_in_handlers"}};

static void lose(struct feed *f, enum ring_loss kind, uint64_t events)
{
    char number[24];
    const char *reason = s_losses[kind].reason;
    const uint32_t string = mt_writer_string(f->writer, reason, strlen(reason));
    f->lost[kind] += events;
    if (kind == RING_LOST_OTHER)
        mt_writer_lost(f->writer, events, string);
    else
        mt_writer_gap(f->writer, events, string);
    snprintf(number, sizeof number, "%" PRIu64, f->lost[kind]);
    mt_writer_info(f->writer, s_losses[kind].fact, number);
}

void feed_lost(struct feed *f, const uint64_t *counts)
{
    for (unsigned kind = 0; kind < RING_LOSSES; kind++)
        if (counts[kind] > f->lost_in_ring[kind]) {
            lose(f, kind, counts[kind] - f->lost_in_ring[kind]);
            f->lost_in_ring[kind] = counts[kind];
        }
}

void feed_other_ring(struct feed *f)
{
    memset(f->lost_in_ring, 0, sizeof f->lost_in_ring);
    f->existing.awaited = false;
}

const char *handle_lost(struct feed *f, const struct ring_lost *r)
{
    if (r->counts_count != RING_LOSSES)
        return "numbers of lost events that can not be";
    feed_time(f, r->instructions);
    feed_lost(f, r->counts);
    return NULL;
}

/* -- decoding ---------------------------------------------------------------------------------------------- */

/* The bytes of a payload after its words; strings are taken from it one after another. */
struct rest {
    const char *at;
    uint64_t bytes;
    bool exceeded; /* a string was longer than the rest */
};

static inline struct raw_text read_text(struct rest *rest, uint64_t bytes)
{
    const struct raw_text text = {rest->at, (uint32_t)bytes};
    if (bytes > rest->bytes) {
        rest->exceeded = true;
        return text;
    }
    rest->at += bytes;
    rest->bytes -= bytes;
    return text;
}

/* By type: how many words of the payload come before strings and items. */
static const uint8_t s_words[RAW_TYPES] = {
#define RECORD(NAME, name, fields) [RAW_##NAME] = 0 fields,
#define ARGUMENT(x)
#define SMALL(x)
#define IN_HEAP(x)
#define WORD(x) +1
#define PAIR(x, y) +1
#define TEXT(x) +1
#define TEXTS(x, y) +1
#define ITEMS(type, x)
#define STACK(x)
#include "ljtrace/protocol/ring.def"
};

/* decode_define and so on: fill the record's struct and handle it. The payload has all its words. */
#define RECORD(NAME, name, fields)                                                                           \
    static const char *decode_##name(struct feed *f, const struct raw *raw)                                  \
    {                                                                                                        \
        const uint64_t *at = raw->word;                                                                      \
        const uint32_t more = raw->count - s_words[RAW_##NAME];                                              \
        struct rest rest = {(const char *)(at + s_words[RAW_##NAME]), more * sizeof *at, false};             \
        struct ring_##name r = {};                                                                           \
        (void)at;                                                                                            \
        fields if (rest.exceeded) return #NAME " record with a string beyond its end";                       \
        return handle_##name(f, &r);                                                                         \
    }
#define ARGUMENT(x) r.x = raw->argument;
#define SMALL(x) r.x = raw->small;
#define IN_HEAP(x) r.x = raw->slot;
#define WORD(x) r.x = *at++;
#define PAIR(x, y)                                                                                           \
    r.x = (uint32_t)*at;                                                                                     \
    r.y = (uint32_t)(*at++ >> 32);
#define TEXT(x) r.x = read_text(&rest, *at++);
#define TEXTS(x, y)                                                                                          \
    r.x = read_text(&rest, (uint32_t)*at);                                                                   \
    r.y = read_text(&rest, *at++ >> 32);
#define ITEMS(type, x)                                                                                       \
    r.x = (const type *)rest.at;                                                                             \
    r.x##_count = more / (sizeof(type) / sizeof *at);                                                        \
    if (more % (sizeof(type) / sizeof *at))                                                                  \
        return "record with a part of an item at its end";
#define STACK(x)                                                                                             \
    r.x = (struct raw_stack){raw->argument, more, (const uint64_t *)rest.at};                                \
    if (raw->argument > RING_NODES)                                                                          \
        return "event with a stack's number that can not be";
#include "ljtrace/protocol/ring.def"

static const struct {
    const char *(*decode)(struct feed *f, const struct raw *raw);
    const char *too_short;
} s_decoders[RAW_TYPES] = {
#define RECORD(NAME, name, fields) {decode_##name, #NAME " record that is too short"},
#include "ljtrace/protocol/ring.def"
};

enum { FEW_WORDS = 8 };

/* Copy the payload of a record to aligned memory. Nearly all records are events of blocks, for which a call would take
 * longer. */
static inline void copy_payload(uint64_t *to, const uint8_t *from, size_t bytes)
{
    const raw_word *word = (const raw_word *)from;
    if (bytes > FEW_WORDS * sizeof *to)
        memcpy(to, from, bytes);
    else
        for (size_t i = 0; i < bytes / sizeof *to; i++)
            to[i] = word[i];
}

/* Handle the record at `at`, which is not a segment. *used: its number of bytes. */
static const char *take_rare(struct feed *f, const uint8_t *at, const uint8_t *end, size_t *used)
{
    const struct raw_head head = raw_head_at(at, (size_t)(end - at));
    *used = 0;
    if (head.type >= RAW_TYPES)
        return "unknown record";
    if (head.bytes == 0)
        return "record beyond the slab's end";
    *used = head.bytes;
    copy_payload(f->payload, at + head.skip, head.bytes - head.skip);
    const struct raw raw = {head.argument, head.slot, head.small,
                            (head.bytes - head.skip) / (uint32_t)sizeof *f->payload, f->payload};
    if (raw.count < s_words[head.type])
        return s_decoders[head.type].too_short;
    return s_decoders[head.type].decode(f, &raw);
}

/* Process segments, and changes of VM states between them, up to the next other record. Returns their number
 * of bytes. */
static size_t take_segments(struct feed *f, const uint8_t *at, size_t size)
{
    if (f->inside[f->thread] || f->off)
        return mt_writer_skip(f->writer, at, size, &f->counted);
    return mt_writer_stream(f->writer, at, size, &f->counted, &f->between);
}

/* Is what is left of a slab the beginning of a segment that the program was about to extend? Its number is that of the
 * longer segment already, but the cursor has not passed all of its words. */
static bool is_begun_segment(const uint8_t *at, const uint8_t *end)
{
    return end - at >= MT_STREAM_ID && raw_is_segment(at) && end - at < (ptrdiff_t)mt_stream_bytes(UINT8_MAX);
}

const char *feed_records(struct feed *f, const uint8_t *slab, size_t size, enum feed_end how, size_t *fed)
{
    const uint8_t *at = slab, *end = slab + size;
    const char *wrong = NULL;
    for (size_t used = 0; !wrong; at += used) {
        const uint8_t *stop = end - (how == FEED_GROWING); /* a segment that ends at the end is not taken */
        if (stop - at >= MT_STREAM_ID && raw_is_segment(at))
            at += take_segments(f, at, (size_t)(stop - at));
        if (at == end || (how != FEED_WHOLE && is_begun_segment(at, end)))
            break;
        if (end - at < MT_STREAM_ID || raw_is_segment(at))
            return "unknown segment, or one beyond the slab's end";
        wrong = take_rare(f, at, end, &used);
    }
    *fed = (size_t)(at - slab);
    return wrong;
}

const char *feed_slab(struct feed *f, const uint8_t *slab, size_t size)
{
    size_t fed;
    return feed_records(f, slab, size, FEED_WHOLE, &fed);
}
