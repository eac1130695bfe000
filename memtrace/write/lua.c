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

static uint32_t known(uint32_t id, uint64_t count)
{
    return id < count ? id : 0;
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

void mt_writer_type(struct mt_writer *w, uint64_t addr, uint32_t heap, enum mt_type type)
{
    uint32_t slot = writer_slot_at(w, addr, heap);
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

void mt_writer_state(struct mt_writer *w, uint32_t heap, enum mt_vm vm, uint32_t trace)
{
    const struct surroundings in = writer_surroundings(w);
    if (writer_failed(w)) {
        w->totals.dropped++;
        return;
    }
    writer_sync_thread(w);
    encoder_change(&w->enc, &in, &(struct mt_change){.heap = heap, .trace = trace, .vm = vm});
    writer_end_event(w);
}
