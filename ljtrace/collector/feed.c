/* feed.c - see feed.h.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ljtrace/collector/feed_impl.h"
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
    universe_clear(&f->universe);
    debuginfo_free(f->debuginfo);
    free(f->payload);
    free(f->lines);
    free(f->machines);
    free(f);
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

enum feed_wish feed_take_wish(struct feed *f)
{
    enum feed_wish wish = f->wish;
    f->wish = FEED_NONE;
    return wish;
}

void feed_time(struct feed *f, uint64_t uncounted)
{
    mt_writer_time(f->writer, f->counted + uncounted);
}

/* The same instruction in several superblocks is one site; not so the instructions that follow one another at
 * an address, which have different frames. */
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

static const char *take_define(struct feed *f, const struct raw *r)
{
    uint32_t count = (r->count - 1) / 3, before = r->argument ? f->accesses : 0;
    if (r->count != 1 + 3 * count || before + count > MT_SEGMENT_MOST)
        return "segment definition of a length that can not be";
    for (uint32_t i = 0; i < count; i++) {
        uint64_t ip = r->word[1 + 3 * i], what = r->word[2 + 3 * i], place = r->word[3 + 3 * i];
        if (what >> 32 > RAW_MODIFY)
            return "segment definition with an unknown kind of access";
        uint32_t site = site_id(f, ip, (uint32_t)what, s_kinds[what >> 32]);
        f->access[before + i] = (struct mt_access){site, place >> 32, (int32_t)place};
    }
    f->accesses = before + count;
    struct mt_segment s = {f->access, f->accesses, r->word[0] >> 32, (uint32_t)r->word[0]};
    bool known = mt_writer_segment(f->writer, &s) != UINT32_MAX;
    return known || mt_writer_error(f->writer)->code != MT_E_NONE ? NULL
                                                                  : "segment definition that can not be";
}

const char *feed_text(const struct raw *r, uint32_t skip, uint64_t offset, uint64_t size)
{
    if (r->count < skip || offset + size > (uint64_t)(r->count - skip) * sizeof *r->word)
        return NULL;
    return (const char *)(r->word + skip) + offset;
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

uint32_t feed_slot(struct feed *f, const struct raw *r)
{
    struct feed_slot *s = &f->slot[r->slot % RING_HEAP_SLOTS];
    if (s->version != f->heap_version) {
        s->id = feed_heap(f, s->heap);
        s->version = f->heap_version;
    }
    return s->id;
}

static const char *take_slot(struct feed *f, const struct raw *r)
{
    if (r->argument >= RING_HEAP_SLOTS)
        return "heap in a slot that can not be";
    f->slot[r->argument] = (struct feed_slot){r->word[0], 0, 0};
    return NULL;
}

/* The heap's name stands among the facts, by its id in the trace. */
static void name_heap(struct feed *f, uint32_t id, const char *text, uint64_t size)
{
    char key[40], *name = strndup(text, size);
    if (!name)
        abort();
    snprintf(key, sizeof key, "heap_name.%" PRIu32, id);
    mt_writer_info(f->writer, key, name);
    free(name);
}

static const char *take_heap(struct feed *f, const struct raw *r)
{
    static const uint8_t kinds[] = {[RAW_KIND_CUSTOM] = MT_HEAP_CUSTOM, [RAW_KIND_MMAP] = MT_HEAP_MMAP};
    const char *text = feed_text(r, 2, 0, r->word[1]);
    if (!text || r->argument >= RAW_HEAP_KINDS)
        return "heap of an unknown kind or with a name beyond its end";
    struct mt_heap heap = {.id = r->word[0] & ~RAW_HEAP_POOL, .kind = kinds[r->argument]};
    uint32_t id = mt_writer_heap(f->writer, &heap);
    set_heap(f, r->word[0], id);
    if (r->word[1])
        name_heap(f, id, text, r->word[1]);
    return NULL;
}

static const char *take_rename(struct feed *f, const struct raw *r)
{
    uint32_t id = feed_heap(f, r->word[0]);
    if (!r->argument)
        set_heap(f, r->word[0], 0);
    set_heap(f, r->word[1], id);
    return NULL;
}

uint32_t feed_stack(struct feed *f, const struct raw *r, uint32_t skip)
{
    return stacks_intern(&f->stacks, r->word + skip, r->count - skip);
}

static const char *take_stack(struct feed *f, const struct raw *r)
{
    if (r->argument == 0 || r->argument > RING_KEPT_STACKS)
        return "stack with a number that can not be";
    stacks_keep(&f->stacks, r->argument, r->word, r->count);
    return NULL;
}

/* The stack of a heap event: one told before, or code addresses. */
static uint32_t event_stack(struct feed *f, const struct raw *r, uint32_t skip)
{
    return r->argument ? stacks_kept(&f->stacks, r->argument) : feed_stack(f, r, skip);
}

static enum mt_how how_of(const struct raw *r)
{
    return (enum mt_how)r->how;
}

static const char *take_new(struct feed *f, const struct raw *r)
{
    feed_time(f, r->word[2]);
    mt_writer_block_new(f->writer, r->word[0], r->word[1], feed_slot(f, r), how_of(r), event_stack(f, r, 3));
    return NULL;
}

static const char *take_free(struct feed *f, const struct raw *r)
{
    feed_time(f, r->word[1]);
    mt_writer_block_free_as(f->writer, r->word[0], feed_slot(f, r), how_of(r), event_stack(f, r, 2));
    return NULL;
}

static const char *take_resize(struct feed *f, const struct raw *r)
{
    feed_time(f, r->word[3]);
    mt_writer_block_resize(f->writer, r->word[0], r->word[1], r->word[2], feed_slot(f, r), how_of(r),
                           event_stack(f, r, 4));
    return NULL;
}

static const char *take_trim(struct feed *f, const struct raw *r)
{
    feed_time(f, r->word[3]);
    mt_writer_trim(f->writer, r->word[1], r->word[2], feed_heap(f, r->word[0]), event_stack(f, r, 4));
    return NULL;
}

static const char *take_unmap(struct feed *f, const struct raw *r)
{
    feed_time(f, r->word[3]);
    mt_writer_unmap(f->writer, r->word[1], r->word[2], feed_heap(f, r->word[0]), event_stack(f, r, 4));
    return NULL;
}

static const char *take_remap(struct feed *f, const struct raw *r)
{
    feed_time(f, r->word[5]);
    mt_writer_remap(f->writer, r->word[1], r->word[2], r->word[3], r->word[4], feed_heap(f, r->word[0]),
                    event_stack(f, r, 6));
    return NULL;
}

static const char *take_mapped(struct feed *f, const struct raw *r)
{
    mt_writer_mapped(f->writer, r->word[0], r->word[1]);
    return NULL;
}

static const char *take_touch(struct feed *f, const struct raw *r)
{
    if (r->argument > RAW_MODIFY)
        return "system call with an unknown kind of access";
    if (!f->off)
        mt_writer_touch(f->writer, (enum mt_kind)s_kinds[r->argument], r->word[0], r->word[1]);
    return NULL;
}

/* The state pointer may be used again, by another state: that will be another heap. */
static const char *take_close(struct feed *f, const struct raw *r)
{
    uint32_t id;
    feed_time(f, r->word[1]);
    if (r->word[0] != RAW_HEAP_C && map_get(&f->heap_of, r->word[0], &id) && id != 0) {
        mt_writer_heap_free(f->writer, id, 0);
        set_heap(f, r->word[0], 0);
    }
    return NULL;
}

static void update_off(struct feed *f)
{
    f->off = f->switched_off || f->unfocused[f->thread];
}

static const char *take_focus(struct feed *f, const struct raw *r)
{
    f->unfocused[f->thread] = !r->argument;
    update_off(f);
    return NULL;
}

static const char *take_report(struct feed *f, const struct raw *r)
{
    f->wish = r->argument ? FEED_SNAPSHOT : FEED_STATUS;
    return NULL;
}

static const char *take_thread(struct feed *f, const struct raw *r)
{
    f->thread = r->argument & 0xffff;
    mt_writer_thread(f->writer, (uint16_t)f->thread);
    update_off(f);
    return NULL;
}

static const char *take_enter(struct feed *f, const struct raw *r)
{
    (void)r;
    f->inside[f->thread]++;
    return NULL;
}

static const char *take_leave(struct feed *f, const struct raw *r)
{
    (void)r;
    f->inside[f->thread] -= f->inside[f->thread] > 0;
    return NULL;
}

static const char *take_switch(struct feed *f, const struct raw *r)
{
    f->switched_off = !r->argument;
    update_off(f);
    return NULL;
}

static const char *take_mark(struct feed *f, const struct raw *r)
{
    const char *text = feed_text(r, 2, 0, r->word[1]);
    if (!text)
        return "mark with a name beyond its end";
    feed_time(f, r->word[0]);
    mt_writer_mark(f->writer, mt_writer_string(f->writer, text, r->word[1]));
    return NULL;
}

static const char *take_info(struct feed *f, const struct raw *r)
{
    uint32_t key = (uint32_t)r->word[0], value = r->word[0] >> 32;
    const char *text = feed_text(r, 1, 0, (uint64_t)key + value);
    if (!text)
        return "info with text beyond its end";
    char *k = strndup(text, key), *v = strndup(text + key, value);
    if (!k || !v)
        abort();
    mt_writer_info(f->writer, k, v);
    free(k);
    free(v);
    return NULL;
}

static const char *take_pointers(struct feed *f, const struct raw *r)
{
    for (uint32_t i = 1; i < r->count; i++)
        mt_writer_pointer(f->writer, raw_pointer_place(r->word[0], r->word[i]), raw_pointer_value(r->word[i]),
                          r->argument != 0);
    return NULL;
}

static const char *take_reach(struct feed *f, const struct raw *r)
{
    (void)r;
    mt_writer_reach(f->writer);
    return NULL;
}

static const char *take_exec(struct feed *f, const struct raw *r)
{
    feed_time(f, r->word[0]);
    f->ending = r->argument ? MT_ENDING_EXEC : MT_ENDING_KILLED;
    return NULL;
}

static const char *take_end(struct feed *f, const struct raw *r)
{
    feed_time(f, r->word[0]);
    f->ended = true;
    f->ending = r->argument < MT_ENDINGS ? (enum mt_ending)r->argument : MT_ENDING_UNKNOWN;
    return NULL;
}

static const struct {
    const char *(*take)(struct feed *f, const struct raw *r);
    uint32_t least; /* payload words */
} s_rare[RAW_TYPES] = {
    /* one on a line */
    /* clang-format off */
    [RAW_DEFINE] = {take_define, 1},
    [RAW_THREAD] = {take_thread, 0},
    [RAW_FRAME] = {feed_frame, 3},
    [RAW_LOADED] = {feed_loaded, 1},
    [RAW_STACK] = {take_stack, 0},
    [RAW_NEW] = {take_new, 3},
    [RAW_FREE] = {take_free, 2},
    [RAW_RESIZE] = {take_resize, 4},
    [RAW_TOUCH] = {take_touch, 2},
    [RAW_ENTER] = {take_enter, 0},
    [RAW_LEAVE] = {take_leave, 0},
    [RAW_CLOSE] = {take_close, 2},
    [RAW_SWITCH] = {take_switch, 0},
    [RAW_MARK] = {take_mark, 2},
    [RAW_INFO] = {take_info, 1},
    [RAW_EXEC] = {take_exec, 1},
    [RAW_END] = {take_end, 1},
    [RAW_TYPE] = {feed_type, 1},
    [RAW_SLOT] = {take_slot, 1},
    [RAW_VM] = {feed_vm, 2},
    [RAW_MACHINE] = {feed_machine, 3},
    [RAW_LUAFRAME] = {feed_luaframe, 5},
    [RAW_LINES] = {feed_lines, 1},
    [RAW_PROTO] = {feed_proto, 4},
    [RAW_TRACE] = {feed_trace, 6},
    [RAW_HEAP] = {take_heap, 2},
    [RAW_RENAME] = {take_rename, 2},
    [RAW_TRIM] = {take_trim, 4},
    [RAW_UNMAP] = {take_unmap, 4},
    [RAW_REMAP] = {take_remap, 6},
    [RAW_MAPPED] = {take_mapped, 2},
    [RAW_FOCUS] = {take_focus, 0},
    [RAW_REPORT] = {take_report, 0},
    [RAW_UNIVERSE] = {feed_universe, 5},
    [RAW_NAME] = {feed_name, 2},
    [RAW_OBJECT] = {feed_object, 3},
    [RAW_LINKS] = {feed_links, 1},
    [RAW_UNIVERSE_END] = {feed_universe_end, 0},
    [RAW_CALL] = {feed_call, 1},
    [RAW_SAMPLE] = {feed_sample, 3},
    [RAW_POINTERS] = {take_pointers, 1},
    [RAW_REACH] = {take_reach, 0},
    /* clang-format on */
};

static bool has_stack(const struct raw *r)
{
    return r->type == RAW_NEW || r->type == RAW_FREE || r->type == RAW_RESIZE || r->type == RAW_TRIM ||
           r->type == RAW_UNMAP || r->type == RAW_REMAP;
}

/* Bytes of the record at `at`, of which there are `size` at least; 0 if it has more than these. */
static size_t record_bytes(const uint8_t *at, size_t size)
{
    const uint32_t count = raw_count_of(*(const raw_half *)at);
    const bool is_state = raw_type_of(*(const raw_half *)at) == RAW_VM;
    const size_t bytes = is_state ? RAW_STATE_BYTES : sizeof(uint64_t) * (1 + (size_t)count);
    return bytes <= size && bytes <= RING_MARGIN_BYTES ? bytes : 0;
}

/* The record, whose payload is copied to where it is aligned. */
static struct raw read_record(struct feed *f, const uint8_t *at, size_t bytes)
{
    const raw_half low = *(const raw_half *)at;
    const bool is_state = raw_type_of(low) == RAW_VM;
    const size_t skip = is_state ? RAW_STATE_HEADER_BYTES : sizeof(uint64_t);
    const uint64_t header = is_state ? low : *(const raw_word *)at;
    memcpy(f->payload, at + skip, bytes - skip);
    return (struct raw){raw_type_of(header),
                        raw_argument_of(header),
                        raw_slot_of(header),
                        raw_how_of(header),
                        (uint32_t)((bytes - skip) / sizeof *f->payload),
                        f->payload};
}

/* What stands at `at`; *used: its bytes. */
static const char *take_rare(struct feed *f, const uint8_t *at, const uint8_t *end, size_t *used)
{
    const enum raw_type type = raw_type_of(*(const raw_half *)at);
    if (type >= RAW_TYPES || !s_rare[type].take)
        return "unknown record";
    *used = record_bytes(at, (size_t)(end - at));
    if (*used == 0)
        return "record beyond the slab's end";
    const struct raw r = read_record(f, at, *used);
    if (r.count < s_rare[type].least)
        return "record that is too short";
    if (has_stack(&r) && r.argument > RING_KEPT_STACKS)
        return "heap event with a stack's number that can not be";
    return s_rare[type].take(f, &r);
}

/* Segments, and changes of states between them, up to the next other record; how many bytes they took. */
static size_t take_segments(struct feed *f, const uint8_t *at, size_t size)
{
    if (f->inside[f->thread] || f->off)
        return mt_writer_skip(f->writer, at, size, &f->counted);
    return mt_writer_stream(f->writer, at, size, &f->counted, &f->between);
}

const char *feed_slab(struct feed *f, const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    const char *wrong = NULL;
    for (size_t used = 0; !wrong; at += used) {
        if (end - at >= MT_STREAM_ID && raw_is_segment(at))
            at += take_segments(f, at, (size_t)(end - at));
        if (at == end)
            break;
        if (end - at < MT_STREAM_ID || raw_is_segment(at))
            return "unknown segment, or one beyond the slab's end";
        wrong = take_rare(f, at, end, &used);
    }
    return wrong;
}
