/* snapshot.c - writes SNAPSHOT chunks: all objects of a Lua state and the links between them, in parts of bounded
 * size.
 *
 * Only the current part is kept in memory, so a snapshot of any size needs a fixed amount of memory here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "memtrace/base/error.h"
#include "memtrace/write/writer_impl.h"

#define PART_BYTES (8u << 20)

static uint32_t known(uint32_t id, uint64_t count)
{
    return id < count ? id : 0;
}

/* Write the current part, after the definitions of its strings. */
static void end_part(struct mt_writer *w)
{
    struct snapshot_part *s = &w->snapshot;
    struct chunk_header h = {.type = CHUNK_SNAPSHOT,
                             .first_event = w->chunk_first_event,
                             .first_handle = w->handles,
                             .instructions = w->totals.instructions};
    if (s->records.failed)
        mt_fail_memory(&w->out.err);
    writer_defs_flush(w);
    if (!writer_failed(w))
        chunk_writer_put(&w->out, &h, &s->records);
    buffer_reset(&s->records);
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
    bool is_string = kind == MT_LINK_UPVALUE || kind == MT_LINK_VALUE;
    if (!b)
        return;
    put_link(b, &(struct rec_link){(int64_t)(l->from - s->from), (int64_t)(l->to - s->to), kind, l->weak != 0,
                                   is_string ? known(l->name, w->counts.strings) : l->name});
    s->from = l->from;
    s->to = l->to;
    s->links++;
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
