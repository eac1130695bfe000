/* lua.c - writes Lua definitions and events: types of blocks, states of virtual machines, prototypes, traces.
 *
 * Prototypes are kept with the address of their block, because the block has another handle in the trace of a forked
 * child.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/write/writer_impl.h"

#include <stdlib.h>
#include <string.h>

struct kept_proto {
    uint64_t addr;
    struct mt_proto proto; /* with its own copy of the lines, and the handle of its block in this trace */
};

bool writer_lua_init(struct mt_writer *w)
{
    w->protos.item_size = sizeof(struct kept_proto);
    w->traces.item_size = sizeof(struct mt_trace);
    return true;
}

void writer_lua_free(struct mt_writer *w)
{
    for (uint32_t i = 0; i < w->protos.count; i++)
        free((uint32_t *)((struct kept_proto *)table_at(&w->protos, i))->proto.lines);
    table_free(&w->protos);
    table_free(&w->traces);
    free(w->types);
}

static bool keep_proto(struct mt_writer *w, uint64_t addr, const struct mt_proto *p)
{
    struct kept_proto *kept = table_add(&w->protos);
    uint32_t *lines = kept ? malloc((p->count + 1) * sizeof *lines) : NULL;
    if (!lines) {
        mt_fail_memory(&w->out.err);
        return false;
    }
    if (p->count)
        memcpy(lines, p->lines, p->count * sizeof *lines);
    *kept = (struct kept_proto){addr, *p};
    kept->proto.lines = lines;
    return true;
}

/* Append the lines as zigzag differences. */
static void pack_lines(struct buffer *to, const struct mt_proto *p)
{
    uint32_t line = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        buffer_uvarint(to, zigzag((int32_t)(p->lines[i] - line)));
        line = p->lines[i];
    }
}

static void define_proto(struct mt_writer *w, struct buffer *b, const struct mt_proto *p, uint64_t handle)
{
    struct buffer lines = {0};
    uint64_t strings = w->counts.strings;
    pack_lines(&lines, p);
    if (lines.failed)
        mt_fail_memory(&w->out.err);
    else if (buffer_size(&lines) <= MAX_PROTO_LINES) {
        writer_nth(b, p->nth);
        put_proto(b, &(struct rec_proto){handle,
                                         p->heap,
                                         known(p->function, strings),
                                         known(p->file, strings),
                                         p->defined,
                                         p->offset,
                                         {(const char *)lines.data, buffer_size(&lines)}});
    }
    buffer_free(&lines);
}

void mt_writer_proto(struct mt_writer *w, uint64_t addr, uint32_t heap, const struct mt_proto *p)
{
    uint32_t slot = w->unsampled.sample.every ? NO_SLOT : writer_slot_at(w, addr, heap);
    struct buffer *b = slot == NO_SLOT ? NULL : writer_def_buffer(w, w->protos.count);
    struct mt_proto proto = *p;
    proto.heap = heap;
    if (slot != NO_SLOT)
        proto.handle = w->map.blocks[slot].handle;
    if (b && keep_proto(w, addr, &proto))
        define_proto(w, b, &proto, proto.handle);
}

void mt_writer_trace(struct mt_writer *w, const struct mt_trace *t)
{
    struct buffer *b = writer_def_buffer(w, w->traces.count);
    struct mt_trace *kept = b ? table_add(&w->traces) : NULL;
    if (!kept)
        return;
    *kept = *t;
    put_trace(b, &(struct rec_trace){known(t->heap, w->counts.heaps), t->number, t->addr, t->size, t->time,
                                     known(t->frame, w->counts.frames)});
}

/* Is the block of a prototype still live, and not replaced by another block at its address? */
static bool still_lives(const struct mt_writer *w, const struct kept_proto *p)
{
    uint32_t slot = writer_slot_at(w, p->addr, p->proto.heap);
    return slot != NO_SLOT && w->map.blocks[slot].handle == p->proto.handle;
}

static void copy_types(struct mt_writer *to, const struct mt_writer *from)
{
    for (uint32_t slot = 0; slot < from->map.used && slot < from->types_room; slot++) {
        const struct block *b = &from->map.blocks[slot];
        if (b->heap != DEAD_HEAP && from->types[slot])
            mt_writer_type(to, b->base, b->heap, (enum mt_type)from->types[slot]);
    }
}

void writer_lua_copy(struct mt_writer *to, const struct mt_writer *from)
{
    for (uint32_t i = 0; i < from->protos.count; i++) {
        const struct kept_proto *p = table_at(&from->protos, i);
        if (still_lives(from, p))
            mt_writer_proto(to, p->addr, p->proto.heap, &p->proto);
    }
    copy_types(to, from);
    for (uint32_t i = 0; i < from->traces.count; i++)
        mt_writer_trace(to, table_at(&from->traces, i));
}

/* Keep the type of a block for a trace that begins with a copy of this one's blocks. */
static bool keep_type(struct mt_writer *w, uint32_t slot, uint8_t type)
{
    if (slot >= w->types_room) {
        uint32_t room = slot < 512 ? 1024 : 2 * slot;
        uint8_t *types = realloc(w->types, room);
        if (!types)
            return mt_fail_memory(&w->out.err) == MT_OK;
        memset(types + w->types_room, 0, room - w->types_room);
        w->types = types;
        w->types_room = room;
    }
    w->types[slot] = type;
    return true;
}

/* The slot of a block of the heap that gets a type. Nearly always it is the newest block, which is not looked for. */
static uint32_t typed_slot(const struct mt_writer *w, uint64_t addr, uint32_t heap)
{
    const struct block *newest = &w->map.blocks[w->newest];
    const bool is_newest = w->newest < w->map.used && newest->base == addr && newest->heap == heap;
    return is_newest ? w->newest : writer_slot_at(w, addr, heap);
}

void mt_writer_type(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_type type)
{
    uint32_t slot = writer_failed(w) ? NO_SLOT : typed_slot(w, addr, heap);
    struct buffer *b = slot == NO_SLOT ? NULL : writer_begin_event(w, MT_TYPE);
    if (type >= MT_TYPES)
        type = MT_TYPE_OTHER;
    if (!b || !keep_type(w, slot, (uint8_t)type))
        return;
    put_type(b, &(struct rec_type){slot, type});
    writer_end_event(w);
}

void mt_writer_sample(struct mt_writer *w, uint32_t heap, enum mt_vm vm, uint32_t stack, uint64_t weight)
{
    struct buffer *b = writer_begin_event(w, MT_SAMPLE);
    if (!b)
        return;
    put_sample(b, &(struct rec_sample){w->totals.instructions, known(heap, w->counts.heaps),
                                       vm < MT_VMS ? vm : MT_VM_C, known(stack, w->counts.stacks),
                                       weight ? weight : 1});
    writer_end_event(w);
}

/* -- calls of C functions from the machine code of Lua traces --
 *
 * Readers assign what such a C function does to the line of the call, so they must know that line. In most cases they
 * know it already, because the last access of the thread was made by the trace at the same line. An event is written
 * only for the other calls. Accesses outside all blocks are not encoded, so readers do not see them. The check
 * therefore uses the segment that was encoded last: if all its accesses are at the line of the call, the last access
 * that readers saw is, too. */

static bool is_lua(const struct mt_frame *f)
{
    return f && (f->kind == MT_FRAME_LUA || f->kind == MT_FRAME_LUA_INLINED);
}

/* The definition of a frame; NULL for id 0, which is not stored. */
static const struct mt_frame *frame_of(const struct mt_writer *w, uint32_t id)
{
    return id ? table_at(&w->frames, id - 1) : NULL;
}

static bool same_line(const struct mt_frame *a, const struct mt_frame *b)
{
    return is_lua(a) && a->line == b->line && a->file == b->file;
}

static bool is_at(const struct mt_writer *w, uint32_t site, const struct mt_frame *place)
{
    const struct mt_site *s = site ? table_at(&w->sites, site - 1) : NULL;
    return s && same_line(frame_of(w, s->frame), place);
}

/* Are all accesses of the last encoded segment at the same line as `place`? */
static bool all_at(const struct mt_writer *w, const struct mt_frame *place)
{
    const struct codebook *b = &w->enc.book;
    uint32_t name = b->names[w->enc.prev_line];
    if (w->enc.prev_line == NO_LINE)
        return false;
    if (name & 1)
        return is_at(w, name >> 1, place);
    const struct coded_segment *s = &b->segments[name >> 1];
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        if (!is_at(w, b->accesses[i].site, place))
            return false;
    return true;
}

/* Find or make the cache entry of a call. The same calls follow the same segments again and again. */
static struct call_memo *find_memo(struct mt_writer *w, uint32_t frame, const struct mt_frame *place)
{
    uint32_t line = w->enc.prev_line;
    struct call_memo *t = &w->call_memos[(line * 31 + frame) % WRITER_CALL_MEMOS];
    if (t->line != line || t->frame != frame)
        *t = (struct call_memo){line, frame, 0, all_at(w, place)};
    return t;
}

/* Can readers infer the line from the last access, or from the last call if there was no access since? */
static bool is_known(const struct mt_writer *w, const struct call_memo *t, const struct mt_frame *place)
{
    bool accessed = writer_accesses(w) != w->call_accesses;
    return accessed ? t->same : same_line(frame_of(w, w->call_frame), place);
}

void mt_writer_call(struct mt_writer *w, uint32_t frame)
{
    const struct mt_frame *place = frame_of(w, frame);
    if (!is_lua(place))
        return;
    writer_sync_thread(w);
    struct call_memo *t = find_memo(w, frame, place);
    if (is_known(w, t, place))
        return;
    if (t->stack == 0)
        t->stack = mt_writer_stack(w, 0, frame);
    w->call_accesses = writer_accesses(w);
    w->call_frame = frame;
    mt_writer_event(w, &(struct mt_event){.kind = MT_CALL, .ref = t->stack}); /* may end the chunk */
}

/* -- snapshots: SNAPSHOT chunks, in parts of bounded size --
 *
 * Only the current part is kept in memory, so a snapshot of any size needs a fixed amount of memory here. */

#define PART_BYTES (8u << 20)

/* Write the current part, after the definitions of its strings. */
static void end_part(struct mt_writer *w)
{
    struct snapshot_part *s = &w->snapshot;
    writer_defs_flush(w);
    writer_put_chunk(w, CHUNK_SNAPSHOT, &s->records);
}

static void begin_part(struct snapshot_part *s)
{
    s->head.objects = s->objects;
    s->head.links = s->links;
    put_snapshot(&s->records, &s->head);
}

void mt_writer_snapshot_begin(struct mt_writer *w, const struct mt_snapshot *snapshot)
{
    struct snapshot_part *s = &w->snapshot;
    mt_writer_snapshot_end(w);
    if (mt_writer_flush(w) == MT_ERROR)
        return;
    s->open = true;
    s->objects = s->links = s->from = s->to = 0;
    s->head = (struct rec_snapshot){.name = known(snapshot->name, w->counts.strings),
                                    .heap = known(snapshot->heap, w->counts.heaps),
                                    .time = w->totals.instructions,
                                    .total = snapshot->total,
                                    .internal = snapshot->internal};
    begin_part(s);
}

/* The buffer for one more record; NULL if no snapshot is open. */
static struct buffer *record(struct mt_writer *w)
{
    struct snapshot_part *s = &w->snapshot;
    if (!s->open || writer_failed(w))
        return NULL;
    if (buffer_size(&s->records) >= PART_BYTES) {
        end_part(w);
        begin_part(s);
    }
    return &s->records;
}

static bool is_object_type(uint8_t type)
{
    return type != MT_TYPE_UNKNOWN && type <= MT_TYPE_UDATA;
}

uint32_t mt_writer_object(struct mt_writer *w, const struct mt_object *o)
{
    struct buffer *b = record(w);
    uint32_t type = is_object_type(o->type) ? o->type : MT_TYPE_OTHER;
    if (b)
        put_object(b, &(struct rec_object){o->addr, o->size, type, (o->dead != 0) | (o->root != 0) << 1,
                                           known(o->name, w->counts.strings)});
    return (uint32_t)w->snapshot.objects++;
}

void mt_writer_link(struct mt_writer *w, const struct mt_link *l)
{
    struct snapshot_part *s = &w->snapshot;
    struct buffer *b = record(w);
    uint32_t kind = l->kind < MT_LINK_KINDS ? l->kind : MT_LINK_OTHER;
    bool is_string = link_has_string(kind);
    if (!b)
        return;
    put_link(b, &(struct rec_link){(int64_t)(l->from - s->from), (int64_t)(l->to - s->to), kind, l->weak != 0,
                                   is_string ? known(l->name, w->counts.strings) : l->name});
    s->from = l->from;
    s->to = l->to;
    s->links++;
}

void mt_writer_snapshot_drop(struct mt_writer *w)
{
    buffer_reset(&w->snapshot.records);
    w->snapshot.open = false;
}

void mt_writer_snapshot_end(struct mt_writer *w)
{
    struct snapshot_part *s = &w->snapshot;
    struct buffer *b = record(w);
    if (b) {
        put_snapend(b, &(struct rec_snapend){s->objects, s->links});
        end_part(w);
    }
    s->open = false;
}
